"""Screen of running turns: events update the view, keys go to their handlers.

A turn uses the whole screen and reads keys without echo; between turns, the prompt uses both.
"""

import asyncio
import signal
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from agent import events
from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen
from agent.text.visible import escape_invisible
from gateway.cli.console.approvals.queue import ApprovalQueue
from gateway.cli.console.chat.event_buffer import EventBuffer
from gateway.cli.console.chat.local_commands import CONSOLE_WORDS, misspelt, shell_command_in
from gateway.cli.console.chat.message_builder import MessageBuilder
from gateway.cli.console.chat.pending_answers import PendingAnswers
from gateway.cli.console.chat.place import named_worktree
from gateway.cli.console.chat.workdir import remarks
from gateway.cli.console.input.keys import TypeAhead
from gateway.cli.console.input.plain_prompt import PlainPrompt
from gateway.cli.console.input.prompt import Prompt
from gateway.cli.console.output.notifier import TerminalNotifier
from gateway.cli.console.output.screen import Screen
from gateway.cli.console.output.turn_view import TurnView
from gateway.commands import command_in
from gateway.control.service import Service
from gateway.core.approval import ApprovalReply
from gateway.core.errors import ConnectionLost
from gateway.core.messages import InboundMessage, MessageOptions, QueueMode, console_principal
from gateway.core.records import Delivered, WatchEvent
from gateway.presenter.text import complaint

if TYPE_CHECKING:
    from gateway.cli.console.chat.shell_escape import Show, UserCommand


@contextmanager
def signals(on_interrupt: Callable[[], None]) -> Iterator[None]:
    """Handle Ctrl-C with `on_interrupt`; SIGTERM and SIGHUP cancel the current task."""
    loop, main = asyncio.get_running_loop(), asyncio.current_task()
    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    if main is not None:
        # Exit cleanly, because a terminal without echo is hard to repair.
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, main.cancel)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)


_CHECK_INTERVAL_S = 0.1


@frozen
class UnsentInput:
    """Message that its service has not confirmed.

    `text` and `line` are as for `TurnScreen.submit`.
    """

    message: InboundMessage
    text: str
    line: str
    is_prompt: bool = False


class TurnScreen:
    """Screen for the turns of a lane.

    Use `async with stage.open(...)`, then alternate `submit` and `until_idle`.
    """

    def __init__(
        self,
        service: Service,
        speaker: MessageBuilder,
        screen: Screen,
        prompt: Prompt | PlainPrompt,
        unanswered: str = "",
    ) -> None:
        """`unanswered` is as for `TurnView`."""
        self._service = service
        self._builder = speaker
        self._screen = screen
        self._prompt = prompt
        self._view = TurnView(screen, unanswered)
        self.footer = self._view.footer
        self._typeahead = TypeAhead(self)
        self._pending = PendingAnswers()
        self._buffer = EventBuffer()
        self._approvals = ApprovalQueue(self._view, self._begin_reply)
        self._command: asyncio.Task[None] | None = None
        self._is_live = False
        self._stop_early = False
        self._all_answered = asyncio.Event()
        self._sending = asyncio.Lock()
        self.has_events = False
        # Console commands that were typed while a turn ran.
        self.queued_commands: deque[str] = deque()
        # Lines that were typed during a turn and are neither queued nor submitted yet.
        self._typed_lines: list[str] = []
        self.session: str | None = None
        self.delivered = 0
        self._is_again = False
        self.unsent: list[UnsentInput] = []
        self._notifier = TerminalNotifier(screen.write_control)
        self.footer.count_queued = lambda: self._pending.queued_count + len(self.queued_commands)

    @property
    def lane(self) -> str:
        return self._builder.lane

    @property
    def options(self) -> MessageOptions:
        """Options of the command line, without those that a command has replaced."""
        return self._builder.options

    @property
    def unanswered(self) -> str:
        """Streamed text of answers that were not delivered yet."""
        return self._view.unanswered

    @asynccontextmanager
    async def open(
        self, unfinished: bool, delivered: int | None = None, *, again: bool = False
    ) -> AsyncIterator[None]:
        """Watch the lane while the context is open.

        `unfinished`: an earlier turn still has to be shown. `delivered`: number of the last
        delivery that need not be shown. `again`: the connection was lost before.
        """
        self._pending.has_foreign_turn = unfinished
        self.delivered, self._is_again = delivered or 0, again
        watching = self._service.watch(self.lane, self._builder.options.cwd, delivered)
        async with watching as watched, asyncio.TaskGroup() as group:
            self._group = group
            pump = group.create_task(self._pump(watched))
            try:
                with signals(self._on_interrupt):
                    yield
            finally:
                self._notifier.clear()
            pump.cancel()

    async def submit(self, text: str, line: str = "", queue: QueueMode | None = None) -> None:
        """Send a message of this console; `until_idle` shows its turn.

        `line` is the input if it was typed during another turn, and `queue` how that turn handles
        it.
        """
        pasted = self._prompt.pastes.spans(text)
        mentions = self._builder.mentions(text, pasted)
        message = self._builder.build(text, mentions, queue=queue)
        for remark in remarks(mentions) if mentions is not None else ():
            self._view.say(f"· {escape_invisible(remark)}")
        is_prompt = self._builder.invocation_in(text) is not None
        self._pending.add(message, text, line, is_prompt=is_prompt)
        # Record the message in case the watch notices the loss first and cancels this call. It may
        # already be stored; in that case a successor recognises it.
        self.unsent.append(unsent := UnsentInput(message, text, line, is_prompt))
        try:
            await self._service.submit(message)
        except ConnectionLost:
            self._pending.remove(message)
            raise
        except KoreError:
            self.unsent.remove(unsent)
            self._pending.remove(message)
            self._builder.take_back(message)
            raise
        self.unsent.remove(unsent)
        self.drop_options_of(text)

    def drop_options_of(self, text: str) -> None:
        """Drop options of the command line that a command in `text` replaces."""
        self._builder = self._builder.without_options_of(text)
        self._notifier.clear()
        self.footer.use_options(self._builder.options)

    async def send_again(self, unsent: "UnsentInput") -> None:
        """Send a message that the previous service may not have stored."""
        self._pending.add(unsent.message, unsent.text, unsent.line, is_prompt=unsent.is_prompt)
        await self._service.submit(unsent.message)

    def misspelt(self, text: str) -> str | None:
        """Return a suggestion for a line that looks like a misspelt console command."""
        return misspelt(text) if self._builder.invocation_in(text) is None else None

    async def until_idle(self) -> None:
        """Show running work until nothing of this console is pending."""
        if not (self.busy or self._buffer):
            return
        with self._live():
            while self.busy:
                self._all_answered.clear()
                self._view.tick()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CHECK_INTERVAL_S):
                        await self._all_answered.wait()

    async def run(self, begin: "Callable[[Show], UserCommand]") -> None:
        """Show a command that the person runs; the model sees it with the next message."""
        command = begin(self._view.show_output)
        with self._live():
            self._command = work = self._group.create_task(command.run())
            try:
                while not work.done():
                    self._view.tick()
                    await asyncio.wait({work}, timeout=_CHECK_INTERVAL_S)
            finally:
                work.cancel()
                await asyncio.wait({work})
                self._command = None
            self._view.close_output(command.ending)
        self._builder.user_commands.append(command.context)

    @contextmanager
    def _live(self) -> Iterator[None]:
        """Pass screen and keys to the running work; move typed text to the prompt afterwards."""
        self._is_live = True
        self._view.begin()
        self._typeahead.text, self._prompt.draft = self._prompt.draft, ""
        self.show_typed(self._typeahead.text)
        try:
            with self._prompt.keys(self._typeahead.press):
                for event in self._buffer.take_all():
                    self._take(event)
                yield
        finally:
            self._is_live = False
            self._view.end()
            self._prompt.draft, self._typeahead.text = self._typeahead.text, ""
            self.footer.typed_text = ""

    def show_typed(self, text: str) -> None:
        self.footer.typed_text = text
        self._approvals.arm()

    def answer(self, key: str) -> bool:
        return self._approvals.press(key)

    def take_back(self) -> str:
        return self._approvals.take_back()

    def send(self, text: str, *, queued: bool = False) -> None:
        if self._approvals.takes_words:
            self._approvals.say(self._prompt.pastes.whole(text))
            self.footer.typed_text = ""
            return
        self._group.create_task(self._send(text, "queue" if queued else "steer"))

    def _on_interrupt(self) -> None:
        (self if self._is_live else self._prompt).interrupt()

    def unfold(self) -> None:
        if not self._view.unfold():
            self._view.say(t("nothing more to expand"))

    def suspend(self) -> None:
        if isinstance(self._prompt, Prompt):
            with self._screen.without_tail():
                self._prompt.suspend()

    def interrupt(self) -> None:
        if self._command is not None:
            self._command.cancel()
            return
        if self._approvals.takes_words:
            self._approvals.ask_again()
            return
        self._approvals.withdraw()
        self._group.create_task(self._stop())

    async def _send(self, line: str, queue: QueueMode) -> None:
        text = self._prompt.pastes.whole(line)
        if text.strip() == "/stop":
            self.interrupt()
            return
        self._typed_lines.append(text)
        # Process lines in the order in which they were typed.
        async with self._sending:
            with self._refusals():
                try:
                    outcome = await self._outcome_text(text, queue)
                except ConnectionLost:
                    raise
                except KoreError:
                    self._typed_lines.remove(text)
                    raise
                self._typed_lines.remove(text)
                self._view.say(f"› {escape_invisible(line)}{outcome}")
                is_own = text.split()[0] in CONSOLE_WORDS or self.misspelt(text) is not None
                if self._command or shell_command_in(text) or is_own or named_worktree(text):
                    self.queued_commands.append(text)
                    if not self._is_live:
                        # The turn has ended in the meantime, so the prompt is active and would
                        # wait.
                        self._prompt.leave()
                    return
                await self.submit(text, line, queue)

    @property
    def waiting_lines(self) -> Sequence[str]:
        """Lines that were typed during other work and have not been processed yet."""
        return [*self.queued_commands, *self._typed_lines]

    async def _outcome_text(self, text: str, queue: QueueMode) -> str:
        """Return a note about the handling of a message that is typed during a turn."""
        if self._command or shell_command_in(text):
            return f"  ({t('queued')})"
        word = text.split()[0]
        command = command_in(text)
        if command and (command.at_once or word == "/stop") and word not in CONSOLE_WORDS:
            return ""
        if command is None and self._builder.invocation_in(text) is None:
            choice = await self._service.queue_mode(self.lane)
            if MessageOptions(queue=queue).queue_mode(choice, "queue") == "steer":
                return f"  ({t('steering')})"
        return f"  ({t('queued')})"

    async def _stop(self) -> None:
        with self._refusals():
            if await self._service.stop_turn(self.lane):
                return
            if self._stop_early:
                # No turn is running and none has started since the last Ctrl-C: stop waiting.
                self._pending.clear()
                self._stop_early = False
                self._all_answered.set()
                return
            self._stop_early = True

    def _begin_reply(self, approval: events.ApprovalAsked, reply: ApprovalReply) -> None:
        self._notifier.clear()
        self._group.create_task(self._reply(approval, reply))

    async def _reply(self, approval: events.ApprovalAsked, reply: ApprovalReply) -> None:
        with self._refusals():
            if not await self._service.answer_approval(
                approval.nonce, reply.answer, console_principal(), reply.words, reply.scope
            ):
                notice = t("this question has expired or was answered elsewhere")
                self._view.say(f"  {notice}")

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Show errors of the service; only a lost connection ends the conversation."""
        try:
            yield
        except KoreError as exc:
            if isinstance(exc, ConnectionLost):
                raise
            self._view.say(complaint(exc), "red")

    async def _pump(self, watched: AsyncIterator[WatchEvent]) -> None:
        try:
            async for event in watched:
                self.has_events = True
                if isinstance(event, events.AttentionNeeded):
                    self._notifier.notify(event)
                    continue
                if isinstance(event, events.FileChanged) and not self._is_live:
                    # A changed file is not important enough to interrupt the person's typing.
                    continue
                self._pending.notice(event)
                if self._is_live:
                    self._take(event)
                else:
                    self._prompt.leave()
                    await self._buffer.keep(event)
            raise ConnectionLost(t("Kore stopped"))
        finally:
            self._prompt.keep_draft()

    def _take(self, event: WatchEvent) -> None:
        if line := self._pending.follow(event):
            self._view.say(f"› {escape_invisible(line)}")
        match event:
            case events.Compacted():
                self._builder.forget()
                # A person who typed /compact reads the result in the answer.
                if not self._pending.next_text.startswith("/compact"):
                    self._view.take(event)
            case events.SessionStart(session_id=session):
                self.session = session
                self._view.take(event)
                if self._stop_early:
                    self._stop_early = False
                    self._group.create_task(self._stop())
            case events.ApprovalAsked():
                self._approvals.put(event)
            case events.ApprovalAnswered(nonce=nonce):
                if self._approvals.close(nonce):
                    self._view.take(event)
            case Delivered():
                self._deliver(event)
            case _:
                self._view.take(event)

    def _deliver(self, event: Delivered) -> None:
        """Show a delivery unless it is a repeat.

        This console recognizes repeats, unless an earlier program used this lane: after the owner
        was killed, all deliveries not yet marked as sent are sent again.
        """
        is_repeat = event.maybe_duplicate and event.seq <= self.delivered
        if not (self._is_again and is_repeat):
            self._view.take(replace(event, maybe_duplicate=False) if self._is_again else event)
            self.delivered = event.seq
        if self._pending.settle(event):
            self._stop_early = False
            self._all_answered.set()

    @property
    def busy(self) -> bool:
        """True while work still has to be shown or a question has to be answered.

        A background sub-agent may ask while no turn runs.
        """
        return bool(self._pending) or bool(self._approvals)
