"""Additional parts of a gateway whose turns run on workers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError
from agent.i18n import t
from gateway.bus.link import ProcessLink, SoleProcess
from gateway.config import Settings
from gateway.container import Container
from gateway.resources import Resources
from gateway.store.cipher import Cipher
from gateway.store.port import Store
from gateway.turns.usage.reservations import MemoryReservations, Reservations, StoredReservations

if TYPE_CHECKING:
    from gateway.fanout.base import Fanout
    from gateway.workers.front_loop import FrontLoop


class Front:
    """Parts of the front: `link` and `reservations` for other parts; `running` while they run."""

    def __init__(self, fanout: "Fanout | None") -> None:
        self._fanout = fanout
        self.link = _link(fanout)
        self._loop: FrontLoop | None = None

    async def status(self) -> Mapping[str, Any] | None:
        """Return `FrontLoop.status`; None without workers."""
        return await self._loop.status() if self._loop is not None else None

    @property
    def reservations(self) -> Callable[[Store], Reservations]:
        if self._fanout is None:
            return MemoryReservations
        return StoredReservations

    def notify_people(self) -> None:
        """Announce a change of people's access or languages."""
        if self._fanout is not None:
            from gateway.workers.hints import PeopleHint, encode

            self._fanout.publish("workers", encode(PeopleHint()))

    def running(
        self, app: Container, resources: Resources, settings: Settings
    ) -> AbstractAsyncContextManager[object]:
        if self._fanout is None:
            return nullcontext()
        return self._run(self._fanout, app, resources, settings)

    @asynccontextmanager
    async def _run(
        self, fanout: "Fanout", app: Container, resources: Resources, settings: Settings
    ) -> AsyncIterator[None]:
        from gateway.store.postgres import worker_table
        from gateway.workers.event_relay import EventReceiver
        from gateway.workers.front_loop import FrontLoop
        from gateway.workers.links import FrontLink

        assert isinstance(self.link, FrontLink), "made with the fanout"
        loop = self._loop = FrontLoop(
            database=resources.database,
            table=worker_table,
            fanout=fanout,
            link=self.link,
            bus=app.bus,
            sender=app.sender,
            approvals=app.approvals,
            receiver=EventReceiver(resources.events),
            flush_audit=app.audit_relay.flush,
            notify_jobs=app.jobs.notify_changed,
            lease_s=settings.store.lease_s,
        )
        await resources.database.transact(worker_table.leave_turns)
        async with asyncio.TaskGroup() as group:
            work = [
                group.create_task(fanout.run(), name="hints"),
                group.create_task(loop.run(), name="workers"),
            ]
            try:
                yield
            finally:
                for task in work:
                    task.cancel()


def open_front(settings: Settings, cipher: Cipher | None, *, has_workers: bool) -> Front:
    """Open the front; raises `ConfigError` if the settings do not allow workers."""
    if not has_workers:
        return Front(None)
    if settings.store.path is not None:
        raise ConfigError(
            t("--workers needs a database that several processes can work on"),
            hint=t("set store.url to a PostgreSQL database (docs/postgresql.md)"),
        )
    from gateway.fanout.opening import open_fanout

    return Front(open_fanout(settings.bus.url, settings.store.url, cipher, "kore gateway"))


def _link(fanout: "Fanout | None") -> ProcessLink:
    if fanout is None:
        return SoleProcess()
    from gateway.workers.links import FrontLink

    return FrontLink(fanout)
