"""Conversation of a tab: follow the session, send messages and answer questions.

It survives a change of the Kore process: no event is lost and no message is sent twice.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent.errors import KoreError
from agent.events import ApprovalAsked
from agent.records import frozen
from gateway.cli.console.chat.message_builder import MessageBuilder
from gateway.cli.console.chat.place import ConsolePlace, OpenWorktree
from gateway.cli.console.chat.workdir import remarks
from gateway.cli.tui.feed_content import FeedContent
from gateway.control.service import Service
from gateway.core.approval import ApprovalReply
from gateway.core.errors import ConnectionLost
from gateway.core.messages import MessageOptions, QueueMode, console_principal, route_of_session
from gateway.core.records import SessionEvent
from gateway.core.session_folder import SessionFolder
from gateway.core.turn_choice import TurnChoice

if TYPE_CHECKING:
    from gateway.cli.console.chat.shell_escape import UserCommand

# Interval between two attempts to reconnect to Kore.
_POLL_INTERVAL_S = 0.5
_SENT_AGAIN = 240

T = TypeVar("T")
OnEvent = Callable[[SessionEvent | None], None]


@frozen
class TabStart:
    """Options for new tabs.

    `history_folder` stores the input history. `options` belong to the person's folder. `open_place`
    returns the parts of a tab that depend on the folder: the person's folder (None), or another.
    With `is_folder_chosen`, every session continues in the person's folder. `open_worktree` returns
    the parts of a tab in a worktree; None without local folders.
    """

    history_folder: Path
    options: MessageOptions = MessageOptions()
    open_place: Callable[[SessionFolder | None], ConsolePlace] = lambda _: ConsolePlace()
    is_folder_chosen: bool = False
    open_worktree: OpenWorktree | None = None


class TabConversation:
    """Client that follows a session and sends messages to it.

    `session` is None until the first message. `on_event` is called with each event after it was
    applied, and with None when the connection is lost.
    """

    def __init__(
        self, service: Service, place: ConsolePlace, session: str | None, on_event: OnEvent
    ) -> None:
        self.service = service
        self.session = session
        self.content = FeedContent()
        self.is_connected = True
        self.name = ""
        self._on_event = on_event
        # The lane is the same for all clients of the session, so that they share one queue.
        self._builder = MessageBuilder(
            _chat_of(session), place.options, place.project, place.workdir
        )
        self._speaking = asyncio.Lock()
        self._has_session = asyncio.Event()
        if session is not None:
            self._has_session.set()

    @property
    def lane(self) -> str:
        return self._builder.lane

    @property
    def options(self) -> MessageOptions:
        return self._builder.options

    async def follow(self) -> None:
        """Apply the events of the session until cancelled.

        Raises `KoreError` if the session cannot be read.
        """
        await self._has_session.wait()
        while True:
            assert self.session is not None
            try:
                following = self.service.follow_session(self.session, self.content.seq)
                async with following as events:
                    self.is_connected = True
                    self.content.begin_again()
                    async for event in events:
                        self.content.take(event)
                        self._on_event(event)
            except ConnectionLost:
                pass
            self.is_connected = False
            self._on_event(None)
            await asyncio.sleep(_POLL_INTERVAL_S)

    async def say(self, text: str, pasted: list[tuple[int, int]], queue: QueueMode) -> None:
        """Send a message and retry without a connection; it is accepted only once.

        `pasted` are the spans that were not typed, and `queue` selects the handling during a
        running turn. Raises `KoreError`.
        """
        async with self._speaking:
            await self._ensure_session()
            mentions = self._builder.mentions(text, pasted)
            message = self._builder.build(text, mentions, queue=queue)
            for remark in remarks(mentions) if mentions is not None else ():
                self.content.say(f"· {remark}")
            try:
                await self._until_done(lambda: self.service.submit(message))
            except KoreError:
                self._builder.take_back(message)
                raise
            self._builder = self._builder.without_options_of(text)

    async def choose(self, choice: TurnChoice) -> None:
        """Send a choice after a turn. Raises `KoreError`."""
        await self.say(choice.text, [], "queue")
        if choice.leaves_plan_mode:
            self._builder = self._builder.without_options_of(f"/mode {choice.mode}")

    async def turn_choices(self) -> Sequence[TurnChoice]:
        """Return the choices that the last turn offers. Raises `KoreError`."""
        return () if self.session is None else await self.service.turn_choices(self.session)

    async def run_user_command(self, command: "UserCommand") -> None:
        """Run a command of the person; the model sees it with the next message."""
        try:
            await command.run()
        finally:
            self.content.close_output(command.ending)
            self._builder.user_commands.append(command.context)

    async def answer(self, approval: ApprovalAsked, reply: ApprovalReply) -> bool:
        """Answer a question; return False if it has expired or was already answered.

        Raises `KoreError`.
        """
        return await self.service.answer_approval(
            approval.nonce, reply.answer, console_principal(), reply.words, reply.scope
        )

    async def stop(self) -> bool:
        """Stop the running turn; return False if none runs. Raises `KoreError`."""
        return self.session is not None and await self.service.stop_session(self.session)

    async def look_up_name(self) -> str:
        """Return the name of the session. Raises `KoreError`."""
        if self.session is not None:
            self.name = (await self.service.preview_session(self.session, 0, 0)).info.name
        return self.name

    async def _ensure_session(self) -> None:
        if self.session is None:
            self.session = await self._until_done(self.service.create_session)
            # Commands that ran before remain in the builder.
            self._builder = replace(self._builder, chat_id=_chat_of(self.session))
        session, lane = self.session, self._builder.lane
        await self._until_done(lambda: self.service.bind_session(lane, session))
        self._has_session.set()

    async def _until_done(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call that is safe to repeat while the owner of the data changes."""
        for _ in range(_SENT_AGAIN):
            try:
                return await call()
            except ConnectionLost:
                await asyncio.sleep(_POLL_INTERVAL_S)
        return await call()


def _chat_of(session: str | None) -> str:
    return route_of_session(session or "").chat_id
