"""A line to Kore that outlives the process at its other end."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from agent.errors import ConfigError
from agent.i18n import t
from gateway.control.client import ControlClient
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost, HandedOver
from gateway.runtime.paths import DataDir
from gateway.store.errors import StoreClosed

if TYPE_CHECKING:
    from gateway.config import Settings

T = TypeVar("T")
# How long a gateway that asked for the data has to take the lock before it is taken back.
_TAKEN_S = 3.0
# How long a new owner may take to start: it may check and upgrade the database first.
_STARTED_S = 120.0
_LOOK_S = 0.1
# One that is closing may take a call and never answer it.
_ANSWER_S = 0.5
# One that is being killed may still let callers in; what was lost longer ago does not count.
_LOSSES = 20
_LOSSES_WITHIN_S = 600.0

Renew = Callable[[ConnectionLost, Sequence[str]], Awaitable[Service]]


class ServiceConnection:
    """`service` is whom to speak to now; after a loss, `renew` finds who goes on."""

    def __init__(self, service: Service, renew: Renew | None = None) -> None:
        self.service = service
        self._renew = renew
        self._losses: list[float] = []
        self._renewing = asyncio.Lock()

    async def current(self) -> Service:
        """Whom to speak to, once nobody looks for a successor any more."""
        async with self._renewing:
            return self.service

    async def call(self, lane: str, work: Callable[[Service], Awaitable[T]]) -> T:
        """What `work` returns. It begins anew with the successor when the owner of the data changes
        meanwhile. Raises `KoreError`."""
        while True:
            service = await self.current()
            try:
                return await work(service)
            except StoreClosed:
                # This process has let go of the data. Wait for the successor.
                if await self.current() is service:
                    raise
            except ConnectionLost as lost:
                await self.renew(lost, lane, service)

    async def renew(self, lost: ConnectionLost, lane: str, service: Service) -> None:
        """Speak to the successor of a `service`, or be it, unless another caller did so meanwhile.
        `lane` still waits for its answer. Raises `lost` when there is no other, `KoreError`."""
        async with self._renewing:
            if self.service is not service:
                return
            now = time.monotonic()
            self._losses = [*(one for one in self._losses if now - one < _LOSSES_WITHIN_S), now]
            if self._renew is None or len(self._losses) > _LOSSES:
                raise lost
            self.service = await self._renew(lost, (lane,))

    async def follow_owner(self, lane: str) -> None:
        """Let go of the data when another process asks for it, also while nothing is under way.
        `lane` is one that nobody writes in. Raises `KoreError` when there is no owner any more."""
        while True:
            service = self.service
            try:
                async with service.watch(lane) as events:
                    async for _ in events:
                        pass
            except ConnectionLost as lost:
                await self.renew(lost, lane, service)
            else:
                await self.renew(ConnectionLost(t("Kore is no longer running")), lane, service)


@asynccontextmanager
async def open_connection(
    settings: "Settings", home: DataDir, *, full_access: str | None = None
) -> AsyncIterator[ServiceConnection]:
    """A line for a program that waits for its answers, even if the data changes owner: with
    `full_access` this process keeps it."""
    from gateway.cli.chat.terminal import connected_service

    stack = AsyncExitStack()

    async def renew(lost: ConnectionLost, lanes: Sequence[str]) -> Service:
        nonlocal stack
        # In an orderly way: what is let go of here is what the successor waits for.
        before, stack = stack, AsyncExitStack()
        await before.aclose()
        return await stack.enter_async_context(next_connection(settings, home, lost, lanes))

    try:
        yield ServiceConnection(
            await stack.enter_async_context(
                connected_service(settings, home, full_access=full_access)
            ),
            renew if full_access is None else None,
        )
    finally:
        await stack.aclose()


@asynccontextmanager
async def next_connection(
    settings: "Settings", home: DataDir, lost: ConnectionLost, lanes: Sequence[str] = ()
) -> AsyncIterator[Service]:
    """Yield the service of the process that owns the data next.

    That is the process that asked for the data, else one that starts, else this process, which
    continues with `lanes`. Raises `AlreadyRunning` when no owner can be reached.
    """
    from gateway.cli.chat.terminal import connected_service

    if isinstance(lost, HandedOver):
        until = time.monotonic() + _TAKEN_S
        while not await _is_reachable(home):
            if time.monotonic() > until:
                break
            await asyncio.sleep(_LOOK_S)
    deadline = time.monotonic() + _STARTED_S
    while True:
        async with AsyncExitStack() as stack:
            try:
                service = await stack.enter_async_context(
                    connected_service(settings, home, attended=lanes)
                )
            except ConfigError as exc:
                if exc.code != "locked" or time.monotonic() > deadline:
                    raise
            except ConnectionLost:
                if time.monotonic() > deadline:
                    raise
            else:
                yield service
                return
        await asyncio.sleep(_LOOK_S)


async def _is_reachable(home: DataDir) -> bool:
    try:
        return await ControlClient.connect(home.socket, timeout_s=_ANSWER_S) is not None
    except ConnectionLost:
        return False
