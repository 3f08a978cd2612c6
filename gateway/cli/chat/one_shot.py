"""Single turn without a conversation: answer on stdout, everything else on stderr."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal, TextIO

from agent import events
from agent.approvals import ApprovalRequest
from agent.context.project.context import ProjectContext
from agent.errors import BadOutput, KoreError
from agent.i18n import mark_for_translation, plural, t
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.policy.base import ASKED_IN_EVERY_MODE
from agent.security.policy.reasons import localized
from agent.serialization import dumps, event_from_json, event_to_json
from agent.text.visible import escape_invisible
from agent.types import Result, ToolCall
from gateway.cli.chat.awaited_answer import GOAL_LIMITS, AwaitedAnswer
from gateway.cli.chat.service_connection import ServiceConnection
from gateway.cli.console.chat.message_builder import MessageBuilder
from gateway.cli.console.chat.place import ReadLine, folder_question
from gateway.cli.console.input.plain_prompt import PlainPrompt
from gateway.control.protocol import watch_event_to_json
from gateway.control.service import Service
from gateway.core.approval import ApprovalReply
from gateway.core.errors import CommandRefused, ConnectionLost, HandedOver
from gateway.core.markdown import unescape_markdown
from gateway.core.messages import MessageOptions, console_principal
from gateway.core.records import Delivered, WatchEvent
from gateway.presenter.blocks import call_block, error_block, note_block, step_block
from gateway.presenter.text import whole_seconds

if TYPE_CHECKING:
    from agent.skills.commands import CustomCommands
    from gateway.cli.chat.output_schema import OutputSchema

OutputFormat = Literal["text", "json", "stream-json"]
Ask = Callable[[events.ApprovalAsked], Awaitable[ApprovalReply]]

_CONNECTION_LOST = mark_for_translation(
    "Kore stopped before the answer was complete; it continues when Kore runs again"
)
DONE, FAILED, USAGE, BLOCKED, DECIDE, LIMIT, DENIED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130
_MAX_SCHEMA_RETRIES = 2
_REDRAW_INTERVAL_S = 1.0
_ERASE = "\r\x1b[K"


@frozen
class OneShotRequest:
    """Request for a single turn in `session`, in the latest one (`latest`), or in a new one.

    An earlier session works in its own folder, unless `is_folder_chosen` is set or the person
    decides otherwise. `choose_agent` returns the agent of `options` as a folder defines it; None
    without a chosen agent.
    """

    text: str
    output: OutputFormat = "text"
    session: str | None = None
    latest: bool = False
    options: MessageOptions = MessageOptions()
    project: ProjectContext | None = None
    # Print streamed text, including text before a tool call.
    streams: bool = False
    is_folder_chosen: bool = False
    choose_agent: Callable[[str], dict[str, Any]] | None = None
    schema: "OutputSchema | None" = None
    # Further texts for the model, with their taint (`MessageOptions.run`).
    reports: tuple[Mapping[str, Any], ...] = ()
    # Prompts that the text can invoke as `/NAME`.
    commands: "CustomCommands | None" = None
    # A turn with a denied call ends with the exit code `DENIED`.
    fails_on_denied: bool = False


@frozen
class DeniedCall:
    """Call that was not allowed. `agent` is "main", or the sub-agent that made it."""

    tool: str
    arguments: Mapping[str, Any]
    reason: str
    agent: str = "main"


class ProgressLine:
    """Line on `err` that is redrawn every second.

    It is disabled if `err` is not a terminal or cannot erase. Callers must call `erase` before they
    print to `err`.
    """

    def __init__(self, err: TextIO) -> None:
        self._err = err
        self._is_shown = err.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._is_drawn = self._is_paused = False
        self._began_at = 0.0

    async def run(self) -> None:
        """Draw the line until cancelled."""
        self._began_at = time.monotonic()
        while self._is_shown:
            await asyncio.sleep(_REDRAW_INTERVAL_S)
            if not self._is_paused:
                elapsed = whole_seconds(time.monotonic() - self._began_at)
                text = t("working {time} · Ctrl-C stops", time=elapsed)
                self._err.write(f"{_ERASE}\x1b[2m{text}\x1b[0m")
                self._err.flush()
                self._is_drawn = True

    def erase(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            self._err.write(_ERASE)
            self._err.flush()

    def finish(self) -> None:
        """Remove the line, because the answer itself now shows the progress."""
        self.erase()
        self._is_paused = True

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Hide the line and pause the timer while a question is open on the same terminal."""
        self.erase()
        self._is_paused = True
        asked_at = time.monotonic()
        try:
            yield
        finally:
            self._began_at += time.monotonic() - asked_at
            self._is_paused = False


class StreamedAnswer:
    """Printer of an answer, piece by piece.

    Call `add` for each piece, `begin` for each restart, and `finish` with the whole text.
    """

    def __init__(self, out: TextIO, clear: Callable[[], None]) -> None:
        self._out = out
        self._clear = clear
        self._printed = self._current = ""

    def begin(self) -> None:
        """Start the text again, after a handover or for the next model call."""
        self._current = ""

    def add(self, text: str) -> None:
        self._current = (self._current + text).lstrip()
        if self._printed.startswith(self._current):
            return
        if self._current.startswith(self._printed):
            self._write(self._current[len(self._printed) :])
        else:
            self._write(f"\n{self._current}")
        self._printed = self._current

    def close(self) -> None:
        """Close a complete text; the next one begins on a new line."""
        if self._printed:
            self._write("\n")
        self._printed = self._current = ""

    def finish(self, text: str) -> None:
        """Print the missing part of a delivered text."""
        if self._printed.startswith(text) and len(self._printed) > len(text):
            self._printed = self._printed[len(text) :].lstrip("\n")
            return
        self.begin()
        self.add(text)
        self.close()

    def _write(self, text: str) -> None:
        self._clear()
        print(
            escape_invisible(text) if self._out.isatty() else text,
            end="",
            file=self._out,
            flush=True,
        )


class OneShotTurn:
    """Single turn, or all turns of a goal.

    `exit_code = await OneShotTurn(connection, request, out, err).run(interrupted)`

    `ask` asks a person for an approval; without it, approvals are denied. `read_line` reads a line
    from the person; None when interrupted.
    """

    def __init__(
        self,
        connection: ServiceConnection,
        request: OneShotRequest,
        out: TextIO,
        err: TextIO,
        ask: Ask | None = None,
        read_line: ReadLine | None = None,
    ) -> None:
        self._read_line = read_line
        self._connection = connection
        self._request = request
        self._out = out
        self._err = err
        self._ask = ask
        self._progress = ProgressLine(err)
        self._builder = MessageBuilder(
            f"once-{os.urandom(4).hex()}",
            request.options,
            request.project,
            commands=request.commands,
        )
        self._builder.user_commands.extend(request.reports)
        schema = request.schema
        text = request.text if schema is None else schema.request(request.text)
        self._message = self._builder.build(text)
        streams = request.streams and request.output == "text" and schema is None
        self._streamed = StreamedAnswer(out, self._progress.finish) if streams else None
        self._answer: list[str] = []
        # Number of the last delivery.
        self._delivered = 0
        self._result: Result | None = None
        self._error: events.Error | None = None
        # The value that `schema` describes, or the reason why there is none.
        self._output: Any = None
        self._has_output = False
        self._output_error: events.Error | None = None
        self._denied: list[DeniedCall] = []
        self._awaited = AwaitedAnswer(self._message.event_id)
        # The goal that this run works for.
        self._goal: events.GoalChanged | None = None
        self._is_stopping = False
        self._has_session = False
        self._started_calls: dict[str, events.ToolStart] = {}

    @property
    def lane(self) -> str:
        return self._builder.lane

    @property
    def stop_reason(self) -> str | None:
        """Reason for an early end of the turn; None after a regular end."""
        return self._result.stopped if self._result else None

    async def run(self, interrupted: asyncio.Event) -> int:
        """Run the turn and return the exit code once it is stored.

        `interrupted` stops the turn. When the owner of the data changes, the turn continues in the
        new process. Raises `KoreError` if the turn could not be submitted.
        """
        await self._run_turn(interrupted)
        if (schema := self._request.schema) is not None:
            await self._read_output(schema, interrupted)
        self._close()
        return INTERRUPTED if interrupted.is_set() else self._exit_code()

    async def _read_output(self, schema: "OutputSchema", interrupted: asyncio.Event) -> None:
        """Set the output; if the shape is wrong, the model may answer again, up to twice."""
        # This loads all tools.
        from agent.run.options import with_earlier

        for retries in range(_MAX_SCHEMA_RETRIES + 1):
            result = self._result
            if interrupted.is_set() or result is None or result.stopped:
                return
            if self._awaited.is_refused or (self._awaited.has_goal and not self._is_goal_met):
                # Another message would continue the goal.
                return
            try:
                self._output, self._has_output = schema.read(result), True
                return
            except BadOutput as exc:
                error = events.Error(exc.code, str(exc), exc.hint)
            if result.signal in ("BLOCKED", "DECIDE"):
                return
            if retries == _MAX_SCHEMA_RETRIES:
                self._output_error = error
                self._note(error_block(error).marked_text)
                return
            self._note(t("· {reason}; asking the model again", reason=error.message))
            again = render_prompt("output_schema_again", reason=error.message)
            self._message = self._builder.build(again)
            await self._run_turn(interrupted)
            if self._result is not None:
                self._result = with_earlier(result, self._result)

    async def _run_turn(self, interrupted: asyncio.Event) -> None:
        """Run one turn, or all turns of a goal, until the answer is stored."""
        self._answer, self._result = [], None
        self._awaited = AwaitedAnswer(self._message.event_id)
        while True:
            service = self._service
            try:
                await self._follow(interrupted)
                break
            except ConnectionLost as lost:
                if self._streamed:
                    self._streamed.begin()
                if isinstance(lost, HandedOver):
                    self._note(t("· {why}; continuing there", why=escape_invisible(str(lost))))
                await self._connection.renew(lost, self.lane, service)

    @property
    def _service(self) -> Service:
        return self._connection.service

    async def _follow(self, interrupted: asyncio.Event) -> None:
        """Submit the message unless it is already stored, and show events until the answer."""
        lane = self._builder.lane
        if not self._has_session:
            try:
                await self._choose_session(lane)
            except EOFError:
                interrupted.set()
                return
            self._has_session = True
        failure: KoreError | None = None
        async with self._service.watch(lane, None, self._delivered) as watch_events:
            await self._service.submit(self._message)
            try:
                async with asyncio.TaskGroup() as group:
                    stopper = group.create_task(self._stop_when(interrupted))
                    pulse = group.create_task(self._progress.run())
                    async for event in watch_events:
                        if await self._handle(event):
                            break
                    else:
                        raise ConnectionLost(t(_CONNECTION_LOST))
                    stopper.cancel()
                    pulse.cancel()
            except* KoreError as failures:
                failure = next(e for e in failures.exceptions if isinstance(e, KoreError))
            finally:
                self._progress.erase()
        if failure is not None:
            raise failure

    async def _choose_session(self, lane: str) -> None:
        session = self._request.session
        if self._request.latest:
            folder = self._request.options.cwd
            session = await self._service.last_session(console_principal(), folder)
        if session is not None:
            bound = await self._service.bind_session(lane, session)
            await self._reject_open_question(bound)
            await self._work_in_folder_of(bound)

    async def _work_in_folder_of(self, session: str) -> None:
        """Send the message from the folder of the session, unless the person chooses another."""
        request, options = self._request, self._message.options
        if request.is_folder_chosen:
            return
        choice = await folder_question(self._service, session, options)
        if choice is None:
            return
        folder = choice.here if choice.is_gone else choice.own
        if self._read_line is None or choice.is_gone:
            self._note(choice.remark)
        else:
            folder = await choice.ask(self._read_line, self._note)
        if folder == options.folder:
            return
        own_options = replace(options.in_folder(folder), project=None)
        if request.choose_agent is not None:
            agent = await asyncio.to_thread(request.choose_agent, folder.workspace)
            own_options = replace(own_options, agent=agent)
        self._message = replace(self._message, options=own_options)

    async def _reject_open_question(self, session: str) -> None:
        # A message after the question would wait for an answer that cannot come from here.
        for prompt in await self._service.list_approvals():
            if prompt.session == session:
                raise KoreError(
                    t("this session waits for an answer: {title}", title=prompt.title),
                    hint=t("answer it: kore agent --session {session}", session=session),
                )

    async def _stop_when(self, interrupted: asyncio.Event) -> None:
        await interrupted.wait()
        self._is_stopping = not await self._service.stop_turn(self._builder.lane)

    async def _handle(self, event: WatchEvent) -> bool:
        """Handle an event; return whether the turn is over."""
        if self._is_stopping and isinstance(event, events.SessionStart | events.IterationStart):
            # Ctrl-C was pressed before the turn started.
            self._is_stopping = not await self._service.stop_turn(self._builder.lane)
        if self._request.output == "stream-json":
            self._progress.erase()
            print(dumps(watch_event_to_json(event)), file=self._out, flush=True)
        if self._streamed:
            self._stream(self._streamed, event)
        match event:
            case events.ToolStart():
                self._start(event)
            case events.ToolResulted():
                call = call_block(self._end_call(event.id, event, "main"), event)
                self._note("\n".join(f"  └ {line}" for line in call.shown_lines()))
            case events.FromAgent():
                self._follow_agent(event)
            case events.ApprovalAsked():
                await self._approve(event)
            case events.Done(result=result):
                self._result = result
            case Delivered():
                return self._deliver(event)
            case _:
                self._take_note(event)
        return False

    def _take_note(self, event: events.Event) -> None:
        """Record or show an event outside of the answer."""
        match event:
            case events.Error():
                self._error = event
            case events.GoalChanged():
                self._goal = event
            case _:
                if block := note_block(event):
                    self._note(block.marked_text)

    def _stream(self, streamed: StreamedAnswer, event: WatchEvent) -> None:
        match event:
            case events.TextDelta(text=text):
                streamed.add(text)
            case events.IterationStart():
                streamed.begin()
            case events.ToolStart() | events.ApprovalAsked() | events.Error():
                streamed.close()
            case _:
                pass

    def _follow_agent(self, event: events.FromAgent) -> None:
        """Show a step of a sub-agent, and record a denied call."""
        if block := step_block(event):
            self._note(block.marked_text)
        step = event_from_json(event.event)
        if isinstance(step, events.ToolStart):
            self._started_calls[f"{event.number}/{step.id}"] = step
        elif isinstance(step, events.ToolResulted):
            self._end_call(f"{event.number}/{step.id}", step, event.agent)

    def _end_call(self, key: str, result: events.ToolResulted, agent: str) -> events.ToolStart:
        """Return the start of a call that has ended, and record a denial."""
        started = self._started_calls.pop(key, None) or events.ToolStart(key, result.name, {})
        if result.is_denied:
            call = DeniedCall(result.name, started.arguments, result.content, agent)
            self._denied.append(call)
        return started

    def _start(self, event: events.ToolStart) -> None:
        # A call that waited for an approval starts a second time when it continues.
        if event.id not in self._started_calls:
            self._started_calls[event.id] = event
            block = call_block(event)
            self._note(f"{block.mark} {block.heading}")

    async def _approve(self, approval: events.ApprovalAsked) -> None:
        if self._ask is None and approval.request.server_question is None:
            self._note(
                t(
                    "{call} needs approval ({reason}) and was denied: nobody can be "
                    "asked here. An interactive session can approve it; -y allows it for one run."
                    if self._would_run_in_auto(approval.request)
                    else "{call} needs approval ({reason}) and was denied: nobody can be asked "
                    "here. An interactive session can approve it.",
                    call=call_block(_asked_call(approval)).heading,
                    reason=localized(approval.request.reason),
                )
            )
        with self._progress.pause():
            reply = await self._ask(approval) if self._ask else ApprovalReply("deny")
        await self._service.answer_approval(
            approval.nonce, reply.answer, console_principal(), reply.words, reply.scope
        )

    def _would_run_in_auto(self, request: ApprovalRequest) -> bool:
        options = self._request.options
        is_auto = options.auto or options.mode == "auto"
        return not is_auto and request.rule not in ASKED_IN_EVERY_MODE

    def _deliver(self, delivered: Delivered) -> bool:
        if delivered.is_repeat(self._delivered):
            return False
        self._delivered = max(delivered.seq, self._delivered)
        is_ours, is_notice = (
            delivered.event_id == self._message.event_id,
            delivered.kind == "notice",
        )
        is_foreign = not is_ours and not self._awaited.has_goal
        is_over = self._awaited.take(delivered)
        has_goal, is_refused = self._awaited.has_goal, self._awaited.is_refused
        is_command = is_ours and self._result is None and self._message.content.startswith("/")
        text = unescape_markdown(delivered.text) if is_command or is_notice else delivered.text
        is_beside = is_notice and (has_goal or not delivered.last)
        if is_foreign or is_beside or is_refused or (is_command and has_goal):
            self._note(escape_invisible(text))
            if is_refused:
                self._error = events.Error(CommandRefused.code, text, None)
            return is_over
        self._answer.append(text)
        if self._request.output == "text":
            self._show(text)
        return is_over

    @property
    def _is_goal_met(self) -> bool:
        return self._awaited.outcome == "met"

    def _show(self, text: str) -> None:
        if self._result is None or self._result.stopped not in ("error", "cancelled"):
            if self._request.schema is not None:
                return
            if self._streamed:
                self._streamed.finish(text)
                return
            terminal = self._out.isatty()
            self._progress.erase()
            print(escape_invisible(text) if terminal else text, file=self._out, flush=True)
        else:
            if self._streamed:
                self._streamed.close()
            self._note(escape_invisible(text))
            if self._error is not None and self._error.message not in text:
                self._note(error_block(self._error).marked_text)

    def _close(self) -> None:
        self._progress.erase()
        if self._request.output == "json":
            print(dumps(self._summary()), file=self._out, flush=True)
        elif self._has_output:
            print(dumps(self._output), file=self._out, flush=True)
        if self._denied and self._request.fails_on_denied:
            tools = ", ".join(dict.fromkeys(call.tool for call in self._denied))
            self._note(
                plural(
                    len(self._denied),
                    "{n} call was denied: {tools}",
                    "{n} calls were denied: {tools}",
                    tools=tools,
                )
            )

    def _summary(self) -> dict[str, Any]:
        result, error = self._result, self._output_error or self._error
        return {
            "text": "\n\n".join(self._answer),
            "output": self._output,
            "denied": [asdict(call) for call in self._denied],
            "success": self._is_success,
            "session_id": result.session_id if result else None,
            "signal": result.signal if result else None,
            "signal_reason": result.signal_reason if result else None,
            "stopped": result.stopped if result else None,
            "usage": asdict(result.usage) if result else None,
            "cost_usd": result.cost_usd if result else None,
            "goal": event_to_json(self._last_goal) if self._last_goal else None,
            "error": error and {"code": error.code, "message": error.message, "hint": error.hint},
        }

    @property
    def _is_success(self) -> bool:
        if self._output_error is not None or (self._awaited.has_goal and not self._is_goal_met):
            return False
        return self._result.success if self._result else self._error is None

    @property
    def _last_goal(self) -> events.GoalChanged | None:
        """Last state of the goal, which is also in the delivery in case its event was lost."""
        goal, outcome = self._goal, self._awaited.outcome
        if goal is None or not self._awaited.has_goal or outcome == (goal.reason or goal.state):
            return goal
        states: Mapping[str | None, Literal["met", "none"]] = {"met": "met", "removed": "none"}
        if (state := states.get(outcome)) is not None:
            return replace(goal, state=state, reason="")
        return replace(goal, state="paused", reason=outcome or "")

    def _exit_code(self) -> int:
        result = self._result
        done = DENIED if self._denied and self._request.fails_on_denied else DONE
        if self._awaited.has_goal:
            if self._awaited.outcome == "question":
                return BLOCKED if result and result.signal == "BLOCKED" else DECIDE
            if not self._is_goal_met:
                return _GOAL_CODES.get(self._awaited.outcome, FAILED)
            return done if self._output_error is None else FAILED
        if result is None:
            return FAILED if self._error else DONE
        if result.stopped is not None:
            limits = dict.fromkeys(("max_iterations", "loop", "limit"), LIMIT)
            stops = {**limits, "cancelled": INTERRUPTED}
            failed = USAGE if result.error_code == "config" else FAILED
            return stops.get(result.stopped, failed)
        if result.signal in ("BLOCKED", "DECIDE"):
            return BLOCKED if result.signal == "BLOCKED" else DECIDE
        if not result.success or self._output_error is not None:
            return FAILED
        return done

    def _note(self, text: str) -> None:
        self._progress.erase()
        print(text, file=self._err, flush=True)


# Exit codes for a goal that is paused for these reasons; other reasons are failures.
_GOAL_CODES: Mapping[str | None, int] = {
    **dict.fromkeys((*GOAL_LIMITS, "plan"), LIMIT),
    "stopped": INTERRUPTED,
}


def _asked_call(approval: events.ApprovalAsked) -> events.ToolStart:
    # Imported here, because most turns ask nothing and it loads all tools.
    from agent.turn.tool_catalog import started_event

    request = approval.request
    return started_event(ToolCall("", request.tool, dict(request.arguments), ""))


def has_terminal() -> bool:
    """Return whether a person can be asked at this terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def line_reader(interrupted: asyncio.Event) -> ReadLine | None:
    """Return a function that reads a line at this terminal; None without a terminal.

    It raises `EOFError` at the end of the input and after Ctrl-C.
    """
    if not has_terminal():
        return None
    prompt = PlainPrompt(sys.stdin, sys.stderr)

    async def read_line(question: str) -> str | None:
        reading = asyncio.ensure_future(prompt.read(question))
        stopping = asyncio.ensure_future(interrupted.wait())
        try:
            await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            # This does not affect a line that has been read, and nothing reads after a
            # cancellation.
            stopping.cancel()
            reading.cancel()
        await asyncio.wait((reading,))
        if interrupted.is_set():
            raise EOFError
        return await reading

    return read_line


def ask_here(
    interrupted: asyncio.Event,
) -> Ask | None:
    """Return a function that asks at this terminal; None without a terminal."""
    if not has_terminal():
        return None
    # A turn without a terminal does not need the keyboard.
    from gateway.cli.console.approvals.prompt import ask_at_terminal

    return ask_at_terminal(sys.stdin, sys.stderr, interrupted)


@contextmanager
def interrupts(interrupted: asyncio.Event) -> Iterator[None]:
    """Set the event on the first Ctrl-C, and cancel the program on the second."""
    loop, main = asyncio.get_running_loop(), asyncio.current_task()

    def on_signal() -> None:
        if interrupted.is_set() and main is not None:
            main.cancel()
        interrupted.set()

    loop.add_signal_handler(signal.SIGINT, on_signal)
    try:
        yield
    finally:
        with suppress(RuntimeError):
            loop.remove_signal_handler(signal.SIGINT)
