"""Conversations in memory: a session that talks is read from disk once."""

from collections import OrderedDict

from agent.types import Message
from gateway.store import windows
from gateway.store.database import Database
from gateway.store.windows import Window

# About 20 MB of messages at most; idle sessions are on disk.
MESSAGES = 20_000


class Histories:
    """Keeps the sessions used last. Only the turn that runs in a session changes it."""

    def __init__(self, database: Database, *, limit: int = MESSAGES) -> None:
        self._database = database
        self._limit = limit
        self._windows: OrderedDict[str, Window] = OrderedDict()

    async def open(self, session: str, asked: Message) -> Window:
        """The session's window, with `asked` at its end: the claim has just stored that."""
        window = self._windows.get(session)
        if window is not None:
            window.messages.append(asked)
        else:
            window = await self._database.run(windows.load, session)
            self._windows[session] = window
        self._windows.move_to_end(session)
        self._forget_old()
        return window

    def forget(self, session: str) -> None:
        """The session was changed by somebody else than a turn."""
        self._windows.pop(session, None)

    def _forget_old(self) -> None:
        held = sum(len(window.messages) for window in self._windows.values())
        while held > self._limit and len(self._windows) > 1:
            _, window = self._windows.popitem(last=False)
            held -= len(window.messages)
