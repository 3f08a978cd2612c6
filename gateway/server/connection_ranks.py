"""Connections that make room for new ones when there are too many."""

import asyncio
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from gateway.server.tokens import AccessToken

_STRANGER, _ROLE, _OWNER, _ADMIN = range(4)
# Of all connections, those that one token may have at most, unless it is an admin's.
_SHARE = 4


class ConnectionRanks:
    """Ranks by the tokens that came over the connections: nobody without one can keep others out,
    and nobody keeps an admin out. An address says too little: those of a tunnel, a proxy and all
    users of this machine are the same. `limit` is the number of connections of all."""

    def __init__(self, limit: int) -> None:
        self._share = max(2, limit // _SHARE)
        self._tokens: WeakKeyDictionary[asyncio.BaseTransport, AccessToken] = WeakKeyDictionary()

    def note(self, connection: asyncio.BaseTransport | None, token: AccessToken) -> None:
        """A request with this token has come over the connection. Where the token has too many, the
        oldest of them is closed."""
        if connection is None or connection in self._tokens:
            return
        self._tokens[connection] = token
        if _rank(token) == _ADMIN:
            return
        others = [
            other
            for other, owner in self._tokens.items()
            if owner.identity == token.identity and not other.is_closing()
        ]
        for oldest in others[: max(0, len(others) - self._share)]:
            oldest.abort() if isinstance(oldest, asyncio.WriteTransport) else oldest.close()

    def least(
        self, connections: Iterable[asyncio.WriteTransport | None]
    ) -> asyncio.WriteTransport | None:
        """The one to close, of connections in the order in which they came: the oldest without a
        token, else the oldest with a role's, else with another token; None where all are
        admins'."""
        open_ = [one for one in connections if one is not None and not one.is_closing()]
        first = min(open_, key=self._rank, default=None)
        return None if first is None or self._rank(first) == _ADMIN else first

    def _rank(self, connection: asyncio.BaseTransport) -> int:
        return _rank(self._tokens.get(connection))


def _rank(token: AccessToken | None) -> int:
    if token is None:
        return _STRANGER
    if token.role is not None:
        return _ROLE
    return _ADMIN if token.allows("admin") else _OWNER
