"""Read-eval-print loop of a conversation: read a message, show its turn, repeat."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rich.text import Text

from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen
from agent.security.files.file_io import in_thread
from agent.text.visible import escape_invisible, escape_line
from agent.version import VERSION
from gateway.cli.console.chat.local_commands import SessionCommands, help_table, shell_command_in
from gateway.cli.console.chat.message_builder import MessageBuilder
from gateway.cli.console.chat.place import (
    ConsolePlace,
    OpenPlace,
    OpenWorktree,
    folder_question,
    named_worktree,
)
from gateway.cli.console.chat.turn_screen import TurnScreen, UnsentInput
from gateway.cli.console.input.clipboard import pasted_input
from gateway.cli.console.input.plain_prompt import PlainPrompt
from gateway.cli.console.input.prompt import Prompt
from gateway.cli.console.output.screen import Screen, speaks_utf8, to_ascii
from gateway.cli.console.output.status_line import StatusLine
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost
from gateway.core.messages import MessageOptions
from gateway.core.records import ConsoleLease
from gateway.core.turn_choice import TurnChoice, choice_of, choices_line
from gateway.presenter.text import complaint, home_relative


@frozen
class ReplOptions:
    """Start options of a conversation.

    The first session is `session`, a new one (`is_new`), or else the last; `choose` lets the person
    select. `open_place` opens the folder of a session; without it, every session continues in
    `place`. `open_worktree` opens a worktree. `lines` were typed before and still have to be run.
    """

    session: str | None = None
    is_new: bool = True
    choose: bool = False
    place: ConsolePlace = ConsolePlace()
    open_place: OpenPlace | None = None
    command: str = "kore"
    lines: Sequence[str] = ()
    open_worktree: OpenWorktree | None = None

    @property
    def options(self) -> MessageOptions:
        return self.place.options


@frozen
class Resumption:
    """Remaining work of a conversation that lost its service.

    `unsent` input may not have reached the service, `lines` are waiting to be run, and `unanswered`
    is the visible part of incomplete answers.
    """

    unsent: Sequence[UnsentInput]
    lines: Sequence[str]
    unanswered: str


class Repl:
    """Conversation with one service."""

    def __init__(
        self,
        service: Service,
        lease: ConsoleLease,
        start: ReplOptions,
        screen: Screen,
        prompt: Prompt | PlainPrompt,
        resumed: Resumption | None = None,
    ) -> None:
        """`resumed` is the remaining work of the conversation with the previous service."""
        self._service = service
        self._lease = lease
        self._options = start
        self._screen = screen
        self._prompt = prompt
        self._session = lease.session
        place = start.place
        speaker = MessageBuilder(lease.chat_id, place.options, place.project, place.workdir)
        self._turn_screen = TurnScreen(
            service, speaker, screen, prompt, resumed.unanswered if resumed else ""
        )
        self._is_resumed = resumed is not None
        self._unsent: Sequence[UnsentInput] = resumed.unsent if resumed else ()
        self._turn_screen.queued_commands.extend(resumed.lines if resumed else start.lines)
        self._status: StatusLine | None = None
        if isinstance(prompt, Prompt):
            prompt.completions.service = service
        pick = prompt.pick if isinstance(prompt, Prompt) else None
        self._sessions = SessionCommands(service, screen, prompt.read, pick, start.options.cwd)
        # Options for the next conversation, in another folder.
        self.successor: ReplOptions | None = None

    @property
    def session(self) -> str | None:
        """Current session of this lane; None until the first message creates one."""
        return self._turn_screen.session or self._session

    @property
    def place(self) -> ConsolePlace:
        """Place of the conversation, with the options that still apply."""
        return replace(self._options.place, options=self._turn_screen.options)

    @property
    def current_lease(self) -> ConsoleLease:
        """Lease with the current state, for a successor to continue the conversation."""
        stage = self._turn_screen
        return replace(
            self._lease,
            session=self.session,
            unfinished=stage.busy,
            delivered=stage.delivered or self._lease.delivered,
        )

    @property
    def has_received_event(self) -> bool:
        """True once an event has arrived from the service."""
        return self._turn_screen.has_events

    @property
    def resumption(self) -> Resumption:
        """Remaining work, for the conversation with the next service."""
        unsent = [*self._unsent, *self._turn_screen.unsent]
        stage = self._turn_screen
        return Resumption(unsent, stage.waiting_lines, stage.unanswered)

    async def run(self) -> None:
        """Run until the person leaves, or continues in another folder (`successor`).

        Raises the errors of the service in an exception group.
        """
        facts = await self._service.status()
        own = (self._options.options.agent or {}).get("model")
        self._begin_status(str(own or facts.get("model")), await self._service.session_mode(None))
        if not self._is_resumed:
            await self._greet(facts)
        lease = self._lease
        async with self._turn_screen.open(
            lease.unfinished, lease.delivered, again=self._is_resumed
        ):
            while self._unsent:
                await self._turn_screen.send_again(self._unsent[0])
                self._unsent = self._unsent[1:]
            if self._options.choose:
                await self._command("/resume")
            await self._talk()
        if self.successor is not None:
            return
        # /new and /fork may have bound this lane to another session.
        if session := await self._service.bound_session(self._turn_screen.lane):
            await self._print_background_tasks(session)
            self._screen.print(
                Text(
                    t(
                        "To resume later: {command} -r {id}",
                        command=self._options.command,
                        id=session,
                    ),
                    "dim",
                )
            )

    def _begin_status(self, model: str, mode: str) -> None:
        workdir, prompt = self._options.place.workdir, self._prompt
        if workdir is not None and isinstance(prompt, Prompt):
            status = StatusLine(
                *(self._options.options, model, mode),
                *(workdir.context_window, workdir.model_title),
            )
            self._status = status
            self._turn_screen.footer.status = status
            utf8 = speaks_utf8(sys.stdout)
            prompt.status = status.line if utf8 else lambda wide: to_ascii(status.line(wide))

    async def _print_background_tasks(self, session: str) -> None:
        """Print the background tasks of the session and whether they stop or continue."""
        tasks = await self._service.background_tasks(session)
        if not tasks:
            return
        status = await self._service.status()
        ends = status.get("pid") == os.getpid()
        becomes = t(
            "Stops now, together with Kore: {names}"
            if ends
            else "Continues in the background (see /tasks): {names}",
            names=", ".join(map(escape_invisible, tasks)),
        )
        self._screen.print(Text(becomes, "yellow"))

    async def _greet(self, status: Mapping[str, Any]) -> None:
        agent = self._options.options.agent or {}
        model = self._options.options.model or agent.get("model") or status.get("model")
        spoken_with = agent.get("name")
        facts = (
            f"Kore {VERSION}",
            spoken_with and t("agent {name}", name=spoken_with),
            workdir.model_title(str(model)) if (workdir := self._options.place.workdir) else model,
            self.session or (None if self._options.choose else t("new session")),
            await self._folder_label(status),
        )
        line = " · ".join(escape_line(str(fact)) for fact in facts if fact)
        self._screen.print(Text(line, "bold"))
        if (hint := status.get("model_hint")) and model == status.get("model"):
            self._screen.print(Text(escape_invisible(t(str(hint))), "yellow"))
        if (project := self._options.place.project) is not None and project.remark:
            self._screen.print(Text(project.remark, "yellow"))
        if self._lease.unfinished:
            notice = t("An earlier answer is still in progress; it will appear here.")
            self._screen.print(Text(notice, "dim"))
        if self._lease.passed_over is not None:
            notice = t(
                "Session {id} is not finished. To see it: {command} -r {id}",
                command=self._options.command,
                id=self._lease.passed_over,
            )
            self._screen.print(Text(notice, "dim"))
        self._screen.print(Text(t("/help lists the commands, /exit quits."), "dim"))
        self._screen.print()
        if self.session is not None:
            await self._sessions.recall(self.session, answer_follows=bool(self._lease.unfinished))

    async def _folder_label(self, status: Mapping[str, Any]) -> str:
        """Return the folder of the conversation, or the workspace."""
        folder = self._options.options.folder
        if folder is None and self.session is not None:
            folder = (await self._service.preview_session(self.session, 0, 0)).info.folder
        path = status.get("workspace", "") if folder is None else folder.path
        return home_relative(str(path), status.get("home"))

    async def _talk(self) -> None:
        warned = False
        while self.successor is None:
            await self._turn_screen.until_idle()
            if self._status is not None:
                await self._status.refresh(self._service, self._turn_screen.lane)
            choices = await self._turn_choices()
            try:
                later = self._turn_screen.queued_commands
                if later:
                    self._screen.print(Text(f"› {escape_invisible(later[0])}", "dim"))
                text = later.popleft() if later else await self._read(choices)
            except EOFError:
                return
            except KeyboardInterrupt:
                if warned:
                    return
                warned = True
                self._screen.print(Text(t("/exit, Ctrl-D or Ctrl-C again quits."), "dim"))
                continue
            warned = False
            text = self._prompt.pastes.whole(text or "")
            if not text.strip():
                continue
            if text.split()[0] in ("/exit", "/quit") or text.strip() in ("exit", "quit"):
                return
            if (choice := choice_of(choices, text)) is not None:
                await self._choose(choice)
                continue
            await self._command(text.strip() if text.startswith("/") else text)

    async def _turn_choices(self) -> Sequence[TurnChoice]:
        """Return the choices that the last turn offers."""
        session = await self._service.bound_session(self._turn_screen.lane)
        return () if session is None else await self._service.turn_choices(session)

    async def _choose(self, choice: TurnChoice) -> None:
        try:
            await self._turn_screen.submit(choice.text)
        except ConnectionLost:
            raise
        except KoreError as exc:
            self._screen.print(Text(complaint(exc), "red"))
            return
        if choice.leaves_plan_mode:
            self._turn_screen.drop_options_of(f"/mode {choice.mode}")

    async def _read(self, choices: Sequence[TurnChoice]) -> str | None:
        """Return a message, or the key of a choice."""
        if not choices:
            return await self._prompt.read()
        lines = self._screen.render(Text(choices_line(choices)))
        question = "\n".join([*lines, self._prompt.mark])
        return await self._prompt.read(question, letters=[choice.key for choice in choices])

    async def _command(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        begin, command = self._options.place.begin_command, shell_command_in(text)
        try:
            if begin is not None and command is not None:
                await self._turn_screen.run(lambda show: begin(command, show))
            elif word == "/sessions" and not rest.strip():
                await self._sessions.show()
                self._screen.print()
            elif word == "/resume":
                await self._resume(await self._sessions.choose(rest.strip()))
            elif (enter := self._worktree_opener(text)) is not None:
                await self._enter_worktree(enter)
            elif word == "/help":
                self._screen.print(help_table(self._options.place.workdir))
                self._screen.print()
            elif (suggestion := self._turn_screen.misspelt(text)) is not None:
                self._screen.print(Text(suggestion, "yellow"))
            else:
                await self._console_command(word, rest.strip(), text)
        except ConnectionLost:
            raise
        except KoreError as exc:
            self._screen.print(Text(complaint(exc), "red"))
        except (EOFError, KeyboardInterrupt):
            return

    async def _console_command(self, word: str, rest: str, text: str) -> None:
        match word:
            case "/output":
                self._turn_screen.unfold()
            case "/paste":
                self._prompt.draft = await pasted_input(self._prompt.pastes)
            case "/export":
                await self._sessions.export(self._turn_screen.lane, rest)
            case _:
                await self._turn_screen.submit(text)

    async def _resume(self, session: str | None) -> None:
        """Continue a session here, or end for a conversation in the folder of the session."""
        if session is None:
            return
        start = self._options
        place = await continued_place(self._service, session, start, self._screen, self._prompt)
        if place is not start.place:
            self._move(session, place)
            return
        bound = await self._service.bind_session(self._turn_screen.lane, session)
        self._turn_screen.session = bound
        await self._sessions.recall(bound)

    def _worktree_opener(self, text: str) -> Callable[[], ConsolePlace] | None:
        """Return the function that opens the worktree of a line; None for any other line."""
        open_worktree, name = self._options.open_worktree, named_worktree(text)
        if open_worktree is None or name is None:
            return None
        return partial(open_worktree, name, self._options.options.folder)

    async def _enter_worktree(self, enter: Callable[[], ConsolePlace]) -> None:
        """Continue the conversation in a worktree of the project."""
        place = await in_thread(enter)
        if place.options.folder != self._options.options.folder:
            self._move(self.session, place)

    def _move(self, session: str | None, place: ConsolePlace) -> None:
        """End for a conversation in another folder."""
        # Options that a command has replaced stay replaced.
        now, there = self._turn_screen.options, place.options
        agent = None if now.agent is None else there.agent
        options = replace(now, cwd=there.cwd, start_folder=there.start_folder, agent=agent)
        place = replace(place, options=options)
        self.successor = replace(
            self._options,
            session=session,
            is_new=session is None,
            choose=False,
            place=place,
            lines=[*self._turn_screen.waiting_lines],
        )


async def continued_place(
    service: Service,
    session: str,
    start: ReplOptions,
    screen: Screen,
    prompt: Prompt | PlainPrompt,
) -> ConsolePlace:
    """Return the place where a session continues: the place of `start`, or another folder.

    Raises `EOFError` or `KeyboardInterrupt` if the person does not answer.
    """
    if start.open_place is None:
        return start.place
    choice = await folder_question(service, session, start.options)
    if choice is None:
        return start.place
    folder = await choice.ask(prompt.read, lambda text: screen.print(Text(text)))
    return start.place if folder == start.options.folder else start.open_place(folder)
