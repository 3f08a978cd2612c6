"""A small in-memory chat platform with visible messages and scripted faults.

Markdown is just `**bold**`; a message has at most `LIMIT` characters.
"""

import asyncio
import itertools
import re
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gateway.channels.base import Accept, MessageNotFound, PreviewContent, SendError, Streaming
from gateway.core.messages import Entity, OutboundMessage, OutboundPart, Route
from gateway.core.platform_limits import ButtonLimits, FileLimits, TextLimit

LIMIT = 1000
FILE_LIMITS = FileLimits(file_bytes=1_000, photo_bytes=1_000, caption=TextLimit(900, "utf16"))
BUTTON_LIMITS = ButtonLimits(data_bytes=64, count=10)
_BOLD = re.compile(r"\*\*(.+?)\*\*")


@dataclass(slots=True)
class PlatformMessage:
    """A message as people see it; `repeat` marks a message that warns of a possible repetition."""

    id: str
    text: str
    bold: bool = False
    repeat: bool = False
    versions: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of the next send to a chat; with `arrives`, people see the message anyway."""

    error: Exception
    arrives: bool = False


class Platform:
    """A `Channel`; `chats` is the visible content, `calls` the requests in order."""

    name = "chat"
    button_limits = BUTTON_LIMITS

    def __init__(self, account: str = "bot") -> None:
        self.account = account
        self.chats: defaultdict[str, list[PlatformMessage]] = defaultdict(list)
        self.calls: list[tuple[str, str, str]] = []
        self.blocked: set[str] = set()
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self._numbers = itertools.count(1)
        self._news = asyncio.Event()

    def fail(self, chat: str, *faults: Exception | Fault) -> None:
        """Make the next sends to this chat fail with these faults, in order."""
        self._faults[chat].extend(
            fault if isinstance(fault, Fault) else Fault(fault) for fault in faults
        )

    def unblock(self, chat: str) -> None:
        self.blocked.discard(chat)
        self._wake_waiting()

    def texts(self, chat: str) -> list[str]:
        return [shown.text for shown in self.chats[chat]]

    async def until(self, condition: Callable[[], object], deadline_s: float = 30) -> None:
        """Return once the condition is true; it is checked at every event of this platform."""
        async with asyncio.timeout(deadline_s):
            while not condition():
                await self._news.wait()

    async def answers(self, chat: str, count: int) -> list[str]:
        """Return the content of the chat once it has at least this number of messages."""
        await self.until(lambda: len(self.chats[chat]) >= count)
        return self.texts(chat)

    async def run(self, accept: Accept) -> None:
        await asyncio.Event().wait()

    def render(self, markdown: str) -> Sequence[OutboundPart]:
        pieces = [markdown[i : i + LIMIT] for i in range(0, len(markdown), LIMIT)]
        return [_part(piece) for piece in pieces]

    async def send(self, message: OutboundMessage) -> str:
        chat, part = message.route.chat_id, message.content
        self.calls.append(
            ("edit" if message.provider_message_id is not None else "send", chat, part.text)
        )
        self._wake_waiting()
        await self.until(lambda: chat not in self.blocked)
        return self._settle(
            chat,
            PlatformMessage("", part.text, bool(part.entities), message.maybe_duplicate),
            message.provider_message_id,
        )

    def _settle(self, chat: str, shown: PlatformMessage, provider_message_id: str | None) -> str:
        fault = self._faults[chat].popleft() if self._faults[chat] else None
        if fault is None or fault.arrives:
            shown.id = self._show(chat, shown, provider_message_id)
        self._wake_waiting()
        if fault is not None:
            raise fault.error
        return shown.id

    def _show(self, chat: str, shown: PlatformMessage, provider_message_id: str | None) -> str:
        if provider_message_id is None:
            shown.id = str(next(self._numbers))
            shown.versions.append(shown.text)
            self.chats[chat].append(shown)
            return shown.id
        for other in self.chats[chat]:
            if other.id == provider_message_id:
                other.text, other.bold = shown.text, shown.bold
                other.versions.append(shown.text)
                return provider_message_id
        raise MessageNotFound("message to edit not found")

    def _wake_waiting(self) -> None:
        """Wake all waiting tasks."""
        news, self._news = self._news, asyncio.Event()
        news.set()


class StreamingPlatform(Platform):
    """A `Platform` that can also stream an answer.

    `sketched` contains, by chat, the drafts that the next message removes.
    """

    def __init__(self, account: str = "bot", way: Streaming = "edits") -> None:
        super().__init__(account)
        self.way: Streaming = way
        self.preview_faults: deque[Fault] = deque()
        self.sketched: dict[str, str] = {}

    def streaming(self, route: Route) -> Streaming:
        return self.way

    def pages(self, growing: PreviewContent) -> Sequence[OutboundPart]:
        *full, last = self.render(growing.text)
        return [*full, _part("\n".join(filter(None, (last.text, growing.status_line))))]

    async def preview(
        self,
        route: Route,
        page: OutboundPart,
        provider_message_id: str | None,
        reply_to: str | None = None,
    ) -> str:
        text = page.text
        self.calls.append(("preview", route.chat_id, text))
        fault = self.preview_faults.popleft() if self.preview_faults else None
        if fault is None or fault.arrives:
            shown = self._show(route.chat_id, PlatformMessage("", text), provider_message_id)
        self._wake_waiting()
        if fault is not None:
            raise fault.error
        return shown

    async def show_draft(self, route: Route, content: PreviewContent, number: int) -> None:
        text = "\n\n".join(filter(None, (content.text, content.status_line)))
        self.calls.append(("sketch", route.chat_id, text))
        self.sketched[route.chat_id] = text
        self._wake_waiting()

    async def typing(self, route: Route) -> None:
        self.calls.append(("typing", route.chat_id, ""))
        self._wake_waiting()


def fault_of(error: type[SendError], text: str = "no") -> Fault:
    return Fault(error(text))


def _part(markdown: str) -> OutboundPart:
    bold = _BOLD.search(markdown)
    text = _BOLD.sub(r"\1", markdown)
    entity = Entity("bold", bold.start(), len(bold[1])) if bold else None
    return OutboundPart(text, (entity,) if entity else ())


class CarryingPlatform(Platform):
    """A `Platform` that can send files; it records their names."""

    file_limits = FILE_LIMITS

    async def send_files(self, message: OutboundMessage) -> str:
        names = ", ".join(file.name for file in message.content.files)
        content = replace(message.content, text=f"[{names}] {message.content.text}")
        return await self.send(replace(message, content=content))
