"""What a tab does with its session: follow it, speak in it, answer it. It outlives the Kore that
it is with: nothing is lost and nothing said twice."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent.errors import KoreError
from agent.events import ApprovalAsked
from agent.records import frozen
from gateway.cli.console.chat.message_builder import MessageBuilder
from gateway.cli.console.chat.workdir import ConsoleWorkdir, remarks
from gateway.cli.tui.feed_content import FeedContent
from gateway.control.service import Service
from gateway.core.approval import ApprovalReply
from gateway.core.errors import ConnectionLost
from gateway.core.messages import MessageOptions, console_principal
from gateway.core.records import SessionEvent
from gateway.sessions.session_feed import route_of_session

if TYPE_CHECKING:
    from agent.context.project.context import ProjectContext
    from gateway.cli.console.chat.shell_escape import Show, UserCommand

# How often a Kore that went away is looked for.
_LOOK_S = 0.5
_SENT_AGAIN = 240

T = TypeVar("T")
OnEvent = Callable[[SessionEvent | None], None]


@frozen
class TabStart:
    """How a tab begins: `options` go with every message; `project` makes what the model is told of
    the folder, anew for each tab; `folder` keeps what was typed. `begin_command` begins one that is
    run with `!`; without it there are none."""

    folder: Path
    options: MessageOptions = MessageOptions()
    project: "Callable[[], ProjectContext | None]" = lambda: None
    workdir: ConsoleWorkdir | None = None
    begin_command: "Callable[[str, Show], UserCommand] | None" = None


class TabConversation:
    """`session` is None until something is said. `on_event` is called with each event that
    was taken in, and with None when the connection is lost."""

    def __init__(
        self, service: Service, start: TabStart, session: str | None, on_event: OnEvent
    ) -> None:
        self.service = service
        self.session = session
        self.content = FeedContent()
        self.is_connected = True
        self.name = ""
        self._on_event = on_event
        # The same place as that of every other client of the session: one queue.
        self._builder = MessageBuilder(
            _chat_of(session), start.options, start.project(), start.workdir
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
        """Take in what happens in the session, for as long as there is one. Raises `KoreError`
        where the session cannot be read."""
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
            await asyncio.sleep(_LOOK_S)

    async def say(self, text: str, pasted: list[tuple[int, int]]) -> None:
        """Send what was typed; `pasted` stretches of it were not. While nobody answers it is tried
        again, and taken once. Raises `KoreError`."""
        async with self._speaking:
            await self._ensure_session()
            if (order := self._builder.expand_command(text)) is not None:
                text = order.text
                pasted = [(0, len(text))] if order.foreign_command is not None else []
            mentions = self._builder.mentions(text, pasted)
            message = self._builder.build(text, mentions, order)
            for remark in remarks(mentions) if mentions is not None else ():
                self.content.say(f"· {remark}")
            try:
                await self._until_done(lambda: self.service.submit(message))
            except KoreError:
                self._builder.take_back(message)
                raise
            self._builder = self._builder.without_options_of(text)

    async def run_by_hand(self, command: "UserCommand") -> None:
        """Run a command of the person's; the model hears of it with the next message."""
        try:
            await command.run()
        finally:
            self.content.close_output(command.ending)
            self._builder.user_commands.append(command.context)

    async def answer(self, approval: ApprovalAsked, reply: ApprovalReply) -> bool:
        """False when it has expired or was answered already. Raises `KoreError`."""
        return await self.service.answer_approval(
            approval.nonce, reply.answer, console_principal(), reply.words, reply.scope
        )

    async def stop(self) -> bool:
        """Stop what runs; False when nothing does. Raises `KoreError`."""
        return self.session is not None and await self.service.stop_session(self.session)

    async def look_up_name(self) -> str:
        """What the session is called. Raises `KoreError`."""
        if self.session is not None:
            self.name = (await self.service.preview_session(self.session, 0, 0)).info.name
        return self.name

    async def _ensure_session(self) -> None:
        if self.session is None:
            self.session = await self._until_done(self.service.create_session)
            # What was run by hand before goes along.
            self._builder = replace(self._builder, chat_id=_chat_of(self.session))
        session, lane = self.session, self._builder.lane
        await self._until_done(lambda: self.service.bind_session(lane, session))
        self._has_session.set()

    async def _until_done(self, call: Callable[[], Awaitable[T]]) -> T:
        """A call that may be made again while the data changes its owner."""
        for _ in range(_SENT_AGAIN):
            try:
                return await call()
            except ConnectionLost:
                await asyncio.sleep(_LOOK_S)
        return await call()


def _chat_of(session: str | None) -> str:
    return route_of_session(session or "").chat_id
