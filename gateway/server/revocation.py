"""Watch that closes a token's connections after its revocation."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

from agent.errors import ConfigError
from gateway.core.tasks import task_scope
from gateway.server.tokens import AccessToken, TokenFile

log = logging.getLogger(__name__)

Close = Callable[[], Awaitable[object]]


class RevocationWatch:
    """Watch over everything that lasts longer than a single answer; register it with `watched`."""

    def __init__(self, tokens: TokenFile, interval_s: float) -> None:
        self._interval_s = interval_s
        self._tokens = tokens
        self._open: dict[object, tuple[AccessToken, Close]] = {}

    def add_to(self, app: web.Application) -> None:
        app.cleanup_ctx.append(self._run)

    @contextmanager
    def watched(self, token: AccessToken, close: Close) -> Iterator[None]:
        """Call `close` if the token is revoked while the context is open."""
        key = object()
        self._open[key] = token, close
        try:
            yield
        finally:
            del self._open[key]

    async def _run(self, _: web.Application) -> AsyncIterator[None]:
        async with task_scope() as start:
            start(self._end_revoked())
            yield

    async def _end_revoked(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            tokens = self._tokens_now() if self._open else frozenset()
            for token, close in tuple(self._open.values()):
                # The token of a Unix socket client is not in a file.
                if token.created_at and token not in tokens:
                    await close()

    def _tokens_now(self) -> frozenset[AccessToken]:
        try:
            return frozenset(self._tokens.list())
        except ConfigError as exc:
            # A token that would be rejected now must not stay connected.
            log.error("%s", exc)
            return frozenset()
