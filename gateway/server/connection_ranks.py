"""Which connections make room for new ones when there are too many."""

import asyncio
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from gateway.server.tokens import AccessToken

_STRANGER, _ROLE, _OWNER = range(3)


class ConnectionRanks:
    """By the tokens that came over them: nobody without one can keep others out. An address says
    too little: those of a tunnel, a proxy and all users of this machine are the same."""

    def __init__(self) -> None:
        self._ranks: WeakKeyDictionary[asyncio.BaseTransport, int] = WeakKeyDictionary()

    def note(self, connection: asyncio.BaseTransport | None, token: AccessToken) -> None:
        """A request with this token has come over the connection."""
        if connection is not None:
            rank = _OWNER if token.role is None else _ROLE
            self._ranks[connection] = max(rank, self._ranks.get(connection, _STRANGER))

    def least(
        self, connections: Iterable[asyncio.WriteTransport | None]
    ) -> asyncio.WriteTransport | None:
        """The one to close, of connections in the order in which they came: the oldest without a
        token, else the oldest with a role's; None where all are the owner's."""
        open_ = [one for one in connections if one is not None and not one.is_closing()]
        first = min(open_, key=self._rank, default=None)
        return None if first is None or self._rank(first) == _OWNER else first

    def _rank(self, connection: asyncio.BaseTransport) -> int:
        return self._ranks.get(connection, _STRANGER)
