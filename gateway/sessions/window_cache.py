"""In-memory cache of conversations, so that an active session is read from disk once."""

from collections import OrderedDict
from collections.abc import Iterable

from agent.records import frozen
from agent.types import Message
from gateway.store.port import Store
from gateway.store.repositories.execution import windows
from gateway.store.repositories.execution.windows import SessionWindow

# Evicted sessions are read from disk again within a few milliseconds.
MAX_BYTES = 8 * 2**20
# Memory of a message besides its texts, including Python objects.
_MESSAGE_BYTES = 1_500
# A text is in memory twice: in the message, and in a vendor's request.
_COPIES = 2


@frozen
class _Size:
    messages: int
    bytes: int


class SessionWindowCache:
    """Cache of the most recently used sessions.

    Only the turn that runs in a session changes its window. If another process may run the next
    turn (`is_shared`), the window is evicted after each turn.
    """

    def __init__(
        self, database: Store, *, limit_bytes: int = MAX_BYTES, is_shared: bool = False
    ) -> None:
        self._database = database
        self._is_shared = is_shared
        self._limit_bytes = limit_bytes
        self._windows: OrderedDict[str, SessionWindow] = OrderedDict()
        self._sizes: dict[str, _Size] = {}
        self._bytes = 0

    async def open(self, session: str, question: Message | None) -> SessionWindow:
        """Return the session's window.

        It ends with the `question` that a claim has just stored; None for a resumed turn.
        """
        window = self._windows.get(session)
        if window is not None and question is not None:
            window.messages.append(question)
        elif window is None:
            window = await self._database.transact(windows.load, session)
            self._windows[session] = window
        self._windows.move_to_end(session)
        self._count(session)
        return window

    def count(self, session: str) -> None:
        """Update the size after a turn; evict the least recently used sessions if needed."""
        if self._is_shared:
            self.evict(session)
        else:
            self._count(session)

    def _count(self, session: str) -> None:
        window = self._windows.get(session)
        if window is None:
            return
        counted = self._sizes.get(session, _Size(0, 0))
        number = len(window.messages)
        # Windows grow at the end; one shortened by a summary is counted from the start.
        if number < counted.messages:
            counted = self._drop_size(session)
        size = counted.bytes + bytes_of(window.messages[counted.messages :])
        self._bytes += size - self._sizes.get(session, _Size(0, 0)).bytes
        self._sizes[session] = _Size(number, size)
        while self._bytes > self._limit_bytes and len(self._windows) > 1:
            oldest, _ = self._windows.popitem(last=False)
            self._drop_size(oldest)

    def evict(self, session: str) -> None:
        """Drop a session that was changed outside of a turn."""
        self._windows.pop(session, None)
        self._drop_size(session)

    def _drop_size(self, session: str) -> _Size:
        self._bytes -= self._sizes.pop(session, _Size(0, 0)).bytes
        return _Size(0, 0)


def bytes_of(messages: Iterable[Message]) -> int:
    """Return the approximate memory of messages, in bytes."""
    return sum(_MESSAGE_BYTES + _COPIES * _texts(message) for message in messages)


def _texts(message: Message) -> int:
    parts = sum(
        len(value)
        for part in message.content
        for value in (getattr(part, name) for name in type(part).__match_args__)
        if isinstance(value, str | bytes)
    )
    return parts + sum(len(call.raw) for call in message.tool_calls)
