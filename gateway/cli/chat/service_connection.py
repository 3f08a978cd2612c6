"""Connection to Kore that survives a change of the process that owns the data."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeVar

from agent.errors import ConfigError
from agent.i18n import t
from gateway.cli.service_link import open_service
from gateway.config import Settings
from gateway.control.client import ControlClient
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost, HandedOver
from gateway.core.messages import console_principal
from gateway.runtime.paths import DataDir
from gateway.store.errors import StoreClosed

T = TypeVar("T")
# Time for a gateway that requested the data to take the lock; after that this process takes it
# back.
_HANDOVER_TIMEOUT_S = 3.0
# Time for a new owner to start: it may check and upgrade the database first.
_START_TIMEOUT_S = 120.0
_POLL_INTERVAL_S = 0.1
# Timeout of a connection attempt: a process that is closing may accept a call and never answer it.
_CONNECT_TIMEOUT_S = 0.5
# Limit of losses within the interval below. A process that is being killed may still accept
# clients, so that several losses can follow each other.
_MAX_LOSSES = 20
_LOSS_WINDOW_S = 600.0

Renew = Callable[[ConnectionLost, Sequence[str]], Awaitable[Service]]


class ServiceConnection:
    """Connection to the current `service`; after a loss, `renew` connects to its successor."""

    def __init__(self, service: Service, renew: Renew | None = None) -> None:
        self.service = service
        self._renew = renew
        self._losses: list[float] = []
        self._renewing = asyncio.Lock()

    async def current(self) -> Service:
        """Return the current service, after a pending renewal has ended."""
        async with self._renewing:
            return self.service

    async def call(self, lane: str, work: Callable[[Service], Awaitable[T]]) -> T:
        """Return the result of `work`, repeated with the successor if the owner changes.

        Raises `KoreError`.
        """
        while True:
            service = await self.current()
            try:
                return await work(service)
            except StoreClosed:
                # This process has released the data. Wait for the successor.
                if await self.current() is service:
                    raise
            except ConnectionLost as lost:
                await self.renew(lost, lane, service)

    async def renew(self, lost: ConnectionLost, lane: str, service: Service) -> None:
        """Connect to the successor of `service`, or become it, unless another caller already did.

        `lane` still waits for its answer. Raises `lost` if renewal is not possible, and
        `KoreError`.
        """
        async with self._renewing:
            if self.service is not service:
                return
            now = time.monotonic()
            self._losses = [*(loss for loss in self._losses if now - loss < _LOSS_WINDOW_S), now]
            if self._renew is None or len(self._losses) > _MAX_LOSSES:
                raise lost
            self.service = await self._renew(lost, (lane,))

    async def follow_owner(self, lane: str) -> None:
        """Release the data when another process requests it, even without activity.

        `lane` is an unused lane. Raises `KoreError` if no owner is left.
        """
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
async def connected_service(
    settings: Settings,
    home: DataDir,
    *,
    attended: Sequence[str] = (),
    full_access: str | None = None,
) -> AsyncIterator[Service]:
    """Yield the service; `attended` and `full_access` are as in `open_service`.

    Raises `ConfigError` if it does not use the required sandbox.
    """
    async with open_service(settings, home, attended=attended, full_access=full_access) as service:
        if full_access is not None:
            yield service
            return
        required = settings.security.sandbox
        actual = str((await service.status()).get("sandbox", ""))
        if required not in ("auto", "none") and actual != required:
            raise ConfigError(
                t(
                    "--sandbox {required}: Kore is already running and uses the sandbox {used}",
                    required=required,
                    used=actual,
                ),
                hint=t("stop it first, or set security.sandbox and restart it"),
            )
        yield service


@asynccontextmanager
async def open_connection(
    settings: Settings, home: DataDir, *, full_access: str | None = None
) -> AsyncIterator[ServiceConnection]:
    """Open a connection that survives a change of owner.

    With `full_access` this process remains the owner.
    """
    stack = AsyncExitStack()

    async def renew(lost: ConnectionLost, lanes: Sequence[str]) -> Service:
        nonlocal stack
        # Close in order: the successor waits for the resources that are released here.
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
    settings: Settings, home: DataDir, lost: ConnectionLost, lanes: Sequence[str] = ()
) -> AsyncIterator[Service]:
    """Yield the service of the next process that owns the data.

    This is the process that requested the data, else a process that is starting, else this process,
    which continues with `lanes`. Raises `AlreadyRunning` if no owner can be reached.
    """
    if isinstance(lost, HandedOver):
        handover_deadline = time.monotonic() + _HANDOVER_TIMEOUT_S
        while not await _is_reachable(home):
            if time.monotonic() > handover_deadline:
                break
            await asyncio.sleep(_POLL_INTERVAL_S)
    deadline = time.monotonic() + _START_TIMEOUT_S
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
        await asyncio.sleep(_POLL_INTERVAL_S)


def service_opener(
    settings: Settings, home: DataDir, *, full_access: str | None = None
) -> Callable[[ConnectionLost | None], AbstractAsyncContextManager[Service]]:
    """Return a function that opens the service and, after a loss, the service of the next owner."""

    def open_next(lost: ConnectionLost | None) -> AbstractAsyncContextManager[Service]:
        if lost is None:
            return connected_service(settings, home, full_access=full_access)
        return next_connection(settings, home, lost)

    return open_next


async def _is_reachable(home: DataDir) -> bool:
    try:
        return await ControlClient.connect(home.socket, timeout_s=_CONNECT_TIMEOUT_S) is not None
    except ConnectionLost:
        return False


async def fork_session(service: Service, session: str | None, folder: str | None) -> str:
    """Fork this session, or the last one of the folder, and return the id of the copy."""
    if session is None:
        session = await service.last_session(console_principal(), folder)
        if session is None:
            raise ConfigError(t("--fork-session: there is no session yet"))
    return await service.fork_session(session)
