"""Service for a server that outlives the process that owns the data."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from agent.i18n import t
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    Open = Callable[[ConnectionLost | None], AbstractAsyncContextManager[Service]]

log = logging.getLogger(__name__)

# Lane without messages; its watch ends when the owner exits.
_LANE = "cli:local:server"


class ReplaceableService:
    """Service that forwards every call to `current`, and raises `ConnectionLost` without one."""

    def __init__(self) -> None:
        self.current: Service | None = None

    def __getattr__(self, name: str) -> Any:
        if self.current is None:
            raise ConnectionLost(t("Kore is changing its process; try again in a moment"))
        return getattr(self.current, name)


@asynccontextmanager
async def kept_service(open_next: "Open") -> AsyncIterator[tuple[Service, asyncio.Task[None]]]:
    """Yield a service that outlives its owner, and a task that ends if no owner can be found.

    `open_next` opens the first service; after a loss, it receives the loss and opens the next
    service.
    """
    service = ReplaceableService()
    is_open = asyncio.Event()

    async def keep() -> None:
        lost: ConnectionLost | None = None
        while True:
            async with AsyncExitStack() as stack:
                service.current = await stack.enter_async_context(open_next(lost))
                is_open.set()
                try:
                    async with service.current.watch(_LANE) as events:
                        async for _ in events:
                            pass
                    lost = ConnectionLost(t("Kore is no longer running"))
                except ConnectionLost as exc:
                    lost = exc
                finally:
                    service.current = None
            log.info("the data has another owner: %s", lost)

    task = asyncio.create_task(keep(), name="service of the server")
    opened = asyncio.create_task(is_open.wait(), name="first service")
    try:
        await asyncio.wait({task, opened}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield cast("Service", service), task
    finally:
        opened.cancel()
        task.cancel()
        await asyncio.wait({task, opened})
