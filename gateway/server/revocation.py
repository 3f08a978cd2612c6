"""Ends what a token has open once it is revoked."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

from aiohttp import web

from agent.errors import ConfigError
from gateway.core.task_scope import task_scope
from gateway.server.tokens import AccessToken, TokenFile

log = logging.getLogger(__name__)

_LOOK_S = 5.0

Close = Callable[[], Awaitable[object]]


class RevocationWatch:
    """What lasts longer than one answer is opened in `watched`."""

    def __init__(self, tokens: TokenFile) -> None:
        self._tokens = tokens
        self._open: dict[object, tuple[AccessToken, Close]] = {}

    def add_to(self, app: web.Application) -> None:
        app.cleanup_ctx.append(self._run)

    @contextmanager
    def watched(self, token: AccessToken, close: Close) -> Iterator[None]:
        """Until the block ends: `close` ends it when the token counts no longer."""
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
            await asyncio.sleep(_LOOK_S)
            tokens = self._tokens_now() if self._open else frozenset()
            for token, close in tuple(self._open.values()):
                # Who comes over a Unix socket has a token that stands in no file.
                if token.created_at and token not in tokens:
                    await close()

    def _tokens_now(self) -> frozenset[AccessToken]:
        try:
            return frozenset(self._tokens.list())
        except ConfigError as exc:
            # Who may not come in now may not stay either.
            log.error("%s", exc)
            return frozenset()
