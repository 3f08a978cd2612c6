"""Ranking of connections, used to make room for new ones over the limit."""

import asyncio
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from gateway.server.tokens import AccessToken

_STRANGER, _ROLE, _OWNER, _ADMIN = range(4)
# Divisor for the share of all connections that a token may have, except for an admin's.
_SHARE = 4


class ConnectionRanks:
    """Ranks of connections by the tokens received over them.

    A client without a token cannot lock others out, and no client can lock out an admin. Addresses
    are not used, because the users of a tunnel, of a proxy or of this machine share one. `limit` is
    the maximum number of connections in total.
    """

    def __init__(self, limit: int) -> None:
        self._share = max(2, limit // _SHARE)
        self._tokens: WeakKeyDictionary[asyncio.BaseTransport, AccessToken] = WeakKeyDictionary()

    def note(self, connection: asyncio.BaseTransport | None, token: AccessToken) -> None:
        """Record that a request with this token arrived over the connection.

        If the token has too many connections, the oldest is closed.
        """
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
        """Return the connection to close, or None if all belong to admins.

        `connections` are in order of arrival. The order is: the oldest without a token, the oldest
        with a role's token, the oldest with another token.
        """
        open_ = [
            connection
            for connection in connections
            if connection is not None and not connection.is_closing()
        ]
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
