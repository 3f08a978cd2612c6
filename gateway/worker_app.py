"""Composition root of a worker, which only runs turns for a gateway."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from agent.errors import ConfigError
from agent.i18n import t
from agent.security.sandbox.orphan_processes import end_all_orphans, recorded_commands
from gateway.access.roles import RoleRegistry
from gateway.access.wiring import SecurityContext
from gateway.app import STOP_TIMEOUT_S, access_control, add_channel, shared_files, token_roles
from gateway.bus.bus import MAX_CONCURRENT_TURNS
from gateway.channels.clients import ApiChannel, ConsoleChannel
from gateway.channels.registry import open_channels, places_of
from gateway.commands import menu
from gateway.config import Settings
from gateway.container import Container, build_container
from gateway.control.health import serve_health
from gateway.control.replacement import end_when_replaced
from gateway.fanout.base import Fanout
from gateway.fanout.opening import open_fanout
from gateway.ops.audit.relay import StoredAuditSink
from gateway.ops.config_reload import WatchedConfig
from gateway.resources import Channels, Resources
from gateway.runtime.paths import DataDir
from gateway.runtime.sandbox import choose_sandbox
from gateway.runtime.secrets import redactor_of
from gateway.runtime.workspace import ensure_workspace
from gateway.sessions.undo_ledger import open_change_log
from gateway.store.errors import StoreTakenOver
from gateway.store.opening import join_store, store_cipher
from gateway.store.port import Transaction, WorkerStore
from gateway.store.postgres import worker_table
from gateway.store.repositories import usage
from gateway.store.repositories.execution import claims, open_work
from gateway.turns.agents.factory import build_agent
from gateway.turns.command_reports import report_lost_commands
from gateway.turns.usage.reservations import StoredReservations
from gateway.workers.event_relay import RelayedEvents
from gateway.workers.hints import AuditHint, JobsHint, LeavingHint
from gateway.workers.links import WorkerLink
from gateway.workers.worker_loop import WorkerLoop
from gateway.workers.worker_pages import worker_pages

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_worker(
    settings: Settings,
    home: DataDir,
    *,
    config: WatchedConfig | None = None,
    http_port: int | None = None,
) -> AsyncIterator[Container]:
    """Run turns while the context is open; then suspend running turns for others to resume.

    Pages for supervisors are on `http_port`, if any. Raises `StoreError`, also while the tables are
    of another version, and `ConfigError`.
    """
    if settings.store.path is not None:
        raise ConfigError(
            t("workers need a database that several processes can work on"),
            hint=t("set store.url to a PostgreSQL database (docs/postgresql.md)"),
        )
    home.ensure()
    async with AsyncExitStack() as stack:
        marker = home.worker_marker(os.getpid())
        if count := await asyncio.to_thread(end_all_orphans, home.worker_markers()):
            log.warning("stopped %d leftover processes of a killed worker", count)
        stack.enter_context(recorded_commands(marker))
        ensure_workspace(settings.agent.workspace)
        cipher = store_cipher(settings, os.environ)
        database = join_store(
            settings.store.url, home.root, cipher=cipher, lease_s=settings.store.lease_s
        )
        stack.push_async_callback(database.close)
        stack.push_async_callback(_leave, database)
        number = database.worker
        choice = await choose_sandbox(settings, home)
        agent = await build_agent(settings, home, choice.sandbox)
        stack.push_async_callback(agent.aclose)
        files = shared_files(settings, cipher)
        agent.changes = open_change_log(database, home.undo, cipher, files)
        fanout = open_fanout(settings.bus.url, settings.store.url, cipher, database.name)
        # A circular dependency: the bus knows which turns may run alone.
        link = WorkerLink(number, fanout, lambda lane: app.bus.is_isolated(lane))
        events = RelayedEvents(number, link.send_events)
        link.flush = events.flush
        channels = await _channels(settings, home, database, events, stack)
        redactor = redactor_of(settings, os.environ)
        agent.redactor.teach(redactor)
        roles = RoleRegistry.of(settings)
        audit = StoredAuditSink(
            database,
            lambda: link.send_hint(AuditHint()),
            worker=f"worker {number}",
            level=lambda: roles.audit_level,
            clean=redactor.clean,
        )
        access = access_control(settings, channels, await places_of(settings, home, database))
        access.token_role = token_roles(home)
        security = SecurityContext(access, roles, audit, redactor, str(choice))
        app = build_container(
            settings,
            Resources(
                *(home, database, agent, events, channels, security, files, link),
                reservations=StoredReservations,
            ),
            hands_over=False,
            config=config,
        )

        await app.people.refresh()
        loop = WorkerLoop(
            number=number,
            database=database,
            read_workers=worker_table.numbers,
            fanout=fanout,
            bus=app.bus,
            approvals=app.approvals,
            background=app.background,
            turn_log=app.turn_log,
            say=database.say,
            refresh=app.people.refresh,
            max_turns=MAX_CONCURRENT_TURNS,
        )
        log.info("worker %d joins %s", number, database.place)
        if http_port is not None:
            pages = worker_pages(loop, database, app.turn_log.facts)
            await stack.enter_async_context(serve_health(settings.http.host, http_port, pages))
        async with _run_tasks(app, database, fanout, loop, link):
            yield app


async def _channels(
    settings: Settings,
    home: DataDir,
    database: WorkerStore,
    events: RelayedEvents,
    stack: AsyncExitStack,
) -> Channels:
    """Open channels for their formats and for previews; nothing is received here."""
    channels: Channels = {}
    add_channel(channels, ConsoleChannel(events))
    add_channel(channels, ApiChannel(events))
    places = await places_of(settings, home, database)
    for channel in await open_channels(
        settings, home, database, stack, places, menu=menu(), shows_only=True
    ):
        add_channel(channels, channel)
    return channels


@asynccontextmanager
async def _run_tasks(
    app: Container, database: WorkerStore, fanout: Fanout, loop: WorkerLoop, link: WorkerLink
) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        hints = group.create_task(fanout.run(), name="hints")
        work = [
            group.create_task(app.bus.run(), name="bus"),
            group.create_task(loop.run(), name="worker"),
            group.create_task(app.compactions.run(), name="compactions"),
            group.create_task(app.speech.run(), name="speech"),
            group.create_task(app.reports.run(), name="reports of commands"),
            group.create_task(_forward_job_changes(app, link), name="jobs"),
            group.create_task(end_when_replaced(database), name="ownership"),
        ]
        try:
            yield
        finally:
            loop.stop()
            link.send_hint(LeavingHint(database.worker))
            try:
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await app.bus.drain()
            except TimeoutError:
                log.warning("stopped with unfinished work; other workers continue it")
            # Cancel unfinished work, because another process takes it over.
            for task in work:
                task.cancel()
            await asyncio.wait(work)
            lanes = await database.transact(hand_over_turns, database.worker, database.name)
            for lane in lanes:
                link.pass_on(lane, None)
            await fanout.flush()
            hints.cancel()
            await asyncio.wait({hints})


async def _leave(database: WorkerStore) -> None:
    """Leave the store, also after a failed start, so that no more turns are assigned here."""
    with suppress(StoreTakenOver):
        await database.leave()


async def _forward_job_changes(app: Container, link: WorkerLink) -> None:
    """Forward changes of jobs to the front, whose timer starts them."""
    while True:
        await app.jobs.changed.wait()
        app.jobs.changed.clear()
        link.send_hint(JobsHint())


def hand_over_turns(tx: Transaction, worker: int, name: str) -> list[str]:
    """Release a worker's turns without charging an attempt; return the lanes to wake.

    Conversations whose commands end with the worker receive a report.
    """
    pinned = open_work.pinned_sessions(tx, worker)
    reports = [report_lost_commands(tx, session, name) for session in pinned]
    claims.suspend_all(tx, worker)
    usage.forget_reservations(tx, worker)
    return [*claims.recover(tx, worker), *filter(None, reports)]
