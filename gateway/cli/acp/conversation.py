"""Conversation of an editor: prompts and the updates that they cause."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import acp
from acp.schema import (
    AvailableCommand,
    AvailableCommandInput,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    StopReason,
    UnstructuredCommandInput,
)

from agent import events
from agent.errors import KoreError
from agent.i18n import mark_for_translation, t
from agent.records import frozen
from agent.security.policy.base import PermissionMode
from agent.text.visible import escape_invisible, escape_line, hidden_character
from agent.turn.tool_catalog import started_event
from agent.types import Message, Result, Thinking
from gateway.cli.acp.editor_servers import EditorServers
from gateway.cli.acp.file_requests import FileRequests
from gateway.cli.acp.prompt_blocks import PromptParts
from gateway.cli.acp.questions import EditorQuestions
from gateway.cli.acp.session_choices import SessionChoices, read_choices
from gateway.cli.acp.updates import SentText, TurnUpdates, Update
from gateway.cli.chat.awaited_answer import GOAL_LIMITS, AwaitedAnswer
from gateway.cli.chat.service_connection import ServiceConnection
from gateway.cli.console.chat.message_builder import MessageBuilder
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost
from gateway.core.messages import InboundMessage, console_principal
from gateway.core.records import Delivered
from gateway.core.tasks import task_scope
from gateway.core.turn_choice import TurnChoice
from gateway.store.errors import StoreClosed

_LOST = mark_for_translation(
    "Kore stopped before the answer was complete; it continues when Kore runs again"
)
_QUESTIONS = (events.ApprovalAsked.type, events.ApprovalAnswered.type)
_STOPS: dict[str, StopReason] = {
    "cancelled": "cancelled",
    "max_iterations": "max_turn_requests",
    "loop": "max_turn_requests",
    "limit": "max_turn_requests",
    "filtered": "refusal",
}


@frozen
class ConnectedEditor:
    """Connected editor: client, files, MCP servers, and questions to the person."""

    client: acp.Client
    files: FileRequests
    questions: EditorQuestions
    servers: EditorServers


class OpenQuestions:
    """Open questions of a prompt; each is asked once.

    They may also be answered elsewhere, and a turn may end without their answers.
    """

    def __init__(
        self,
        ask: Callable[[events.ApprovalAsked], asyncio.Task[None]],
        end: Callable[[events.ApprovalAnswered], object],
    ) -> None:
        self._ask = ask
        self._end = end
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def take(self, event: events.ApprovalAsked | events.ApprovalAnswered) -> None:
        task = self._tasks.get(event.nonce)
        if isinstance(event, events.ApprovalAsked):
            if task is None:
                self._tasks[event.nonce] = self._ask(event)
        elif task is not None:
            task.cancel()
            self._end(event)


class EditorConversation:
    """Conversation of an editor; `session` is the id in Kore and in the editor.

    `workspace` is the trusted repository around the editor's `folder`, or the folder itself.
    """

    def __init__(
        self,
        line: ServiceConnection,
        editor: ConnectedEditor,
        folder: Path,
        workspace: Path,
        builder: MessageBuilder,
    ) -> None:
        self.session = ""
        self.workspace = workspace
        self._line = line
        self._client = editor.client
        self._files = editor.files
        self._questions = editor.questions
        self._servers = editor.servers
        self._folder = folder
        self._builder = builder
        self._choices: SessionChoices | None = None
        self._commands: Sequence[Mapping[str, Any]] | None = None
        # Only one prompt runs at a time: editors send the next one after the answer.
        self._turn = asyncio.Lock()
        self._is_cancelled = False
        # Number of the last delivery.
        self._delivered = 0
        self._uses: Counter[str] = Counter()

    async def begin(self, session: str | None, mode: PermissionMode | None) -> SessionChoices:
        """Join a session or create one, and set the mode if given. Raises `KoreError`."""
        lane = self._builder.lane
        self.session = await self._line.call(
            lane, lambda service: service.bind_session(lane, session)
        )
        if mode is not None:
            await self.choose_mode(mode)
        choices = await self.choices()
        self._servers.begin(self._line.service, lane)
        return choices

    async def end(self) -> None:
        """Stop the turn and the MCP servers of the editor."""
        try:
            await self.cancel()
        finally:
            await self._servers.end()

    async def choices(self) -> SessionChoices:
        """Return the current choices of the session. Raises `KoreError`."""
        self._choices = await self._line.call(self._builder.lane, self._read_choices)
        return self._choices

    async def choose_model(self, model: str) -> None:
        """Set the model for further prompts. Raises `KoreError` if it cannot be used."""

        async def choose(service: Service) -> None:
            await service.choose_model(await self._bound_session(service), model)

        await self._line.call(self._builder.lane, choose)

    async def choose_mode(self, mode: PermissionMode) -> None:
        """Set the mode for further prompts. Raises `KoreError`."""

        async def choose(service: Service) -> None:
            await service.choose_mode(await self._bound_session(service), mode)

        await self._line.call(self._builder.lane, choose)

    async def messages(self) -> Sequence[Message]:
        """Return the messages of the session. Raises `KoreError`."""
        return await self._line.call(
            self._builder.lane, lambda service: service.load_messages(self.session)
        )

    async def announce_choices(self) -> SessionChoices:
        """Send choices to the editor that changed since the last update, for example by a command.

        Raises `KoreError`.
        """
        choices = await self._line.call(self._builder.lane, self._read_choices)
        await self._announce(choices)
        return choices

    async def _announce(self, now: SessionChoices) -> None:
        before, self._choices = self._choices, now
        if before is not None and before.mode != now.mode:
            await self._send_updates(
                CurrentModeUpdate(session_update="current_mode_update", current_mode_id=now.mode)
            )
        if before != now:
            await self._send_updates(
                ConfigOptionUpdate(
                    session_update="config_option_update", config_options=now.config_options()
                )
            )

    async def announce_commands(self, commands: Sequence[Mapping[str, Any]]) -> None:
        """Send the commands and skills to the editor if they changed since the last update."""
        if commands == self._commands:
            return
        self._commands = commands
        await self._send_updates(_commands_update(commands))

    async def prompt(self, parts: PromptParts) -> StopReason:
        """Send a person's prompt, forward the events, and return the stop reason.

        When the owner of the data changes, the turn continues in the new process. Raises
        `KoreError`.
        """
        async with self._turn:
            self._is_cancelled = False
            message = self._message(parts)
            reason = await self._send(message, AwaitedAnswer(message.event_id))
            if reason == "end_turn" and (choice := await self._choice_after_plan()) is not None:
                message = self._builder.build(choice.text)
                begun = message.begun_event_id(choice.command) if choice.leaves_plan_mode else None
                reason = await self._send(message, AwaitedAnswer(message.event_id, begun))
            with suppress(ConnectionLost, StoreClosed):
                # The answer is complete. Later changes are announced with the next answer.
                await self._announce(await self._read_choices(self._line.service))
            return reason

    async def _send(self, message: InboundMessage, awaited: AwaitedAnswer) -> StopReason:
        sent = SentText()
        return await self._line.call(
            self._builder.lane, lambda service: self._answer_to(service, message, awaited, sent)
        )

    async def _choice_after_plan(self) -> TurnChoice | None:
        """Offer the choices after a plan; return the person's choice, or None.

        A fresh conversation is not offered, because the editor could not show it.
        """

        async def read(service: Service) -> Sequence[TurnChoice]:
            return await service.turn_choices(await self._bound_session(service))

        offered = await self._line.call(self._builder.lane, read)
        choices = [choice for choice in offered if choice.mode is not None and not choice.is_fresh]
        if not choices:
            return None
        choice = await self._questions.ask_after_plan(self.session, choices)
        return None if self._is_cancelled else choice

    async def _read_choices(self, service: Service) -> SessionChoices:
        return await read_choices(service, self._builder.lane)

    async def _answer_to(
        self, service: Service, message: InboundMessage, awaited: AwaitedAnswer, sent: SentText
    ) -> StopReason:
        lane = self._builder.lane
        self._servers.begin(service, lane)
        await self._servers.wait()
        for failure in self._servers.take_failures():
            await self._send_updates(
                acp.update_agent_message_text(f"{escape_invisible(failure)}\n\n")
            )
        sent.begin_again()
        async with self._files.served(service, self.session, lane):
            return await self._follow(service, message, awaited, sent)

    async def _bound_session(self, service: Service) -> str:
        """Return the current session; a command such as `/new` leaves the session of the editor."""
        return await service.bound_session(self._builder.lane) or self.session

    async def cancel(self) -> None:
        """Stop the turn; its results so far are preserved."""
        self._is_cancelled = True
        lane = self._builder.lane
        await self._line.call(lane, lambda service: service.stop_turn(lane))

    async def replay(self, messages: Sequence[Message]) -> None:
        """Send the earlier messages to the editor."""
        updates = TurnUpdates(self._folder, self._uses, SentText())
        for message in messages:
            for part in message.content:
                if isinstance(part, Thinking) and part.text:
                    await self._send_updates(acp.update_agent_thought_text(part.text))
            if message.text and message.role == "user":
                await self._send_updates(acp.update_user_message_text(message.text))
            elif message.text and message.role == "assistant":
                await self._send_updates(acp.update_agent_message_text(message.text))
            for call in message.tool_calls:
                await self._send_updates(*updates.of(started_event(call)))
            if message.role == "tool" and message.tool_call_id:
                result = events.ToolResulted(
                    message.tool_call_id, "", message.text, message.is_error, 0.0
                )
                await self._send_updates(*updates.of(result))

    def _message(self, parts: PromptParts) -> InboundMessage:
        built = self._builder.build(parts.text)
        project = _joined(built.options.project, parts.files)
        options = replace(built.options, project=project)
        return replace(built, options=options, media=parts.media)

    async def _follow(
        self, service: Service, message: InboundMessage, awaited: AwaitedAnswer, sent: SentText
    ) -> StopReason:
        updates, result = TurnUpdates(self._folder, self._uses, sent), None
        lane = self._builder.lane
        watching = service.watch(lane, None, self._delivered)
        async with watching as watched, task_scope() as start:
            questions = OpenQuestions(
                lambda approval: start(self._ask(service, approval, updates)),
                lambda answer: start(self._send_updates(*updates.answered(answer))),
            )
            start(self._follow_questions(service, questions))
            await service.submit(message)
            async for event in watched:
                if self._is_cancelled and isinstance(event, events.IterationStart):
                    # The cancellation arrived before the turn started.
                    await service.stop_turn(lane)
                match event:
                    case events.ApprovalAsked() | events.ApprovalAnswered():
                        questions.take(event)
                    case events.Done():
                        result = event.result
                    case Delivered():
                        is_ours = event.event_id == awaited.event_id
                        if await self._deliver(event, awaited, result, updates, sent):
                            await self._send_updates(*updates.end())
                            return self._stop_reason(result, awaited)
                        if event.last and (awaited.has_goal or is_ours):
                            # The next turn, for the goal or of the command, streams its own text.
                            updates.streamed, result = False, None
                    case _:
                        await self._send_updates(*updates.of(event))
        raise ConnectionLost(t(_LOST))

    async def _follow_questions(self, service: Service, questions: OpenQuestions) -> None:
        """Follow questions of the whole session.

        The turn of a crashed editor may block this turn with a question that only the other chat
        knows.
        """
        session = await self._bound_session(service)
        last = (await service.preview_session(session, 0, 0)).info.messages
        async with service.follow_session(session, last, _QUESTIONS) as followed:
            async for event in followed:
                if isinstance(event, events.ApprovalAsked | events.ApprovalAnswered):
                    questions.take(event)

    async def _deliver(
        self,
        event: Delivered,
        awaited: AwaitedAnswer,
        result: Result | None,
        updates: TurnUpdates,
        sent: SentText,
    ) -> bool:
        """Send the text of a delivery that was not streamed; return whether the answer is complete.

        Streamed text has already been sent. Text from Kore itself, and text that arrived during a
        loss of the owner, has not.
        """
        if event.is_repeat(self._delivered):
            return False
        self._delivered = max(event.seq, self._delivered)
        is_ours = event.event_id == awaited.event_id or (
            awaited.has_goal and event.kind != "notice"
        )
        is_failed = result is not None and result.stopped is not None
        is_complete = awaited.take(event)
        words = ""
        is_answer = is_ours and event.kind != "notice"
        if is_answer and not updates.streamed and not is_failed:
            words = sent.take(event.text)
        elif not is_ours or not updates.streamed or (is_failed and not self._is_cancelled):
            words = f"\n\n{event.text}" if updates.streamed else event.text
        if is_ours and event.last:
            words += sent.end_reply()
        if words:
            await self._send_updates(acp.update_agent_message_text(escape_invisible(words)))
        return is_complete

    def _stop_reason(self, result: Result | None, awaited: AwaitedAnswer) -> StopReason:
        if self._is_cancelled:
            return "cancelled"
        if awaited.has_goal and awaited.outcome in GOAL_LIMITS:
            return "max_turn_requests"
        return _STOPS.get(result.stopped or "", "end_turn") if result is not None else "end_turn"

    async def _ask(
        self, service: Service, approval: events.ApprovalAsked, updates: TurnUpdates
    ) -> None:
        """Ask the person at the editor; a missing answer denies."""
        call = updates.question(approval)
        try:
            await self._send_updates(call)
            reply = await self._questions.ask(self.session, approval, call.tool_call_id)
        except ConnectionError:
            # The editor has disconnected without an answer: the question stays open for the next
            # one.
            return
        await service.answer_approval(
            approval.nonce, reply.answer, console_principal(), reply.words, reply.scope
        )

    async def _send_updates(self, *updates: Update | Any) -> None:
        for update in updates:
            await self._client.session_update(self.session, update)


async def read_commands(service: Service, workspace: Path) -> Sequence[Mapping[str, Any]]:
    """Read the commands and skills of a workspace that an editor can show."""
    listed = await service.list_commands(str(workspace))
    # The editor sends the name as it was announced, so it cannot be escaped.
    return [command for command in listed if hidden_character(command["name"]) is None]


def _commands_update(commands: Sequence[Mapping[str, Any]]) -> AvailableCommandsUpdate:
    return AvailableCommandsUpdate(
        session_update="available_commands_update",
        available_commands=[_available_command(command) for command in commands],
    )


def _available_command(command: Mapping[str, Any]) -> AvailableCommand:
    # Editors may send a command without an input as soon as it is selected.
    hint = UnstructuredCommandInput(hint=t("arguments, if any"))
    return AvailableCommand(
        name=command["name"],
        description=escape_line(command["summary"]),
        input=AvailableCommandInput(hint),
    )


def _joined(
    news: Mapping[str, Any] | None, files: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Merge the project update and the files from the editor."""
    if news is None or files is None:
        return news or files
    return {
        "text": f"{news['text']}\n\n{files['text']}",
        "taint": sorted({*news["taint"], *files["taint"]}),
        "evicted": news["evicted"],
        "parts": [*news["parts"], *files["parts"]],
    }


def error_of(exc: KoreError) -> acp.RequestError:
    """Return the protocol error for an exception."""
    words = f"{exc}\n{exc.hint}" if exc.hint else str(exc)
    return acp.RequestError(-32000, escape_invisible(words))
