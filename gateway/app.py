"""Composition root: opens every part, runs them as one task group, and closes them in order."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import (
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    nullcontext,
)
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from agent.errors import ConfigError
from agent.i18n import plural
from agent.security.redaction import Redactor
from agent.security.sandbox.orphan_processes import end_orphans, recorded_commands
from agent.security.sandbox.selector import SandboxChoice
from agent.security.sandbox.unconfined import Unconfined
from gateway.access.control import AccessControl, log_paired_members
from gateway.access.full_access import full_access_entry, full_access_refusal
from gateway.access.roles import RoleRegistry
from gateway.access.wiring import SecurityContext
from gateway.channels.base import Channel, SupportsWebhook
from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.channels.clients import ApiChannel, ConsoleChannel
from gateway.channels.registry import open_channels, places_of
from gateway.channels.table import allowed_senders, channel_sections, owner_of
from gateway.commands import menu
from gateway.config import Settings
from gateway.config.atomic_write import remove_unfinished
from gateway.config.python_plugins import python_store
from gateway.container import Container, build_container
from gateway.control.handover import DataOwnership, take_over
from gateway.control.replacement import end_when_replaced
from gateway.core.attention import AttentionRule
from gateway.core.event_hub import EventHub
from gateway.core.messages import ONCE
from gateway.delivery import outbound_files
from gateway.delivery.retry_policy import MAX_RETRY_INTERVAL_S
from gateway.front import open_front
from gateway.ops.audit.log import AuditLog
from gateway.ops.config_reload import WatchedConfig
from gateway.resources import Channels, Resources
from gateway.runtime.local_access import published_access
from gateway.runtime.lock import acquire
from gateway.runtime.paths import DataDir
from gateway.runtime.sandbox import choose_sandbox
from gateway.runtime.secrets import redactor_of
from gateway.runtime.workspace import ensure_workspace
from gateway.sessions.undo_ledger import open_change_log
from gateway.store.cipher import Cipher
from gateway.store.errors import StoreInUse
from gateway.store.files.port import FileStoreError
from gateway.store.opening import open_store, store_cipher
from gateway.store.port import Store, Transaction
from gateway.store.repositories import preferences, usage
from gateway.store.repositories.access import approvals
from gateway.store.repositories.active_channels import limit, set_queues
from gateway.store.repositories.conversations import session_folders
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.execution import (
    claims,
    restored_backup,
    subagent_tasks,
    turns,
)
from gateway.store.sqlite.backup import discard_unfinished
from gateway.turns.agents.factory import build_agent

if TYPE_CHECKING:
    from gateway.store.files.file_store import SharedFiles

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 10.0
# Interval at which a standby process checks for the end of the owner.
_STANDBY_S = 1.0
# A worker that is creating a message has a copy of its files first.
_ROW_FOLLOWS_S = 3_600.0


@asynccontextmanager
async def open_app(  # noqa: PLR0913 - the ways to start, by name
    settings: Settings,
    home: DataDir,
    *,
    channels: bool,
    attended: Sequence[str] = (),
    config: WatchedConfig | None = None,
    full_access: str | None = None,
    standby: bool = False,
    has_workers: bool = False,
) -> AsyncIterator[Container]:
    """Own the data and run until the context ends; then drain and close.

    With `channels`, all enabled channels are started; otherwise only the console is started, and a
    gateway that requests the data receives it. `attended` are lanes of one-shot runs that still
    wait for their answers, `config` the files to watch for changes. With the token `full_access`,
    this terminal's messages with the token run without rules. No other process can use this access,
    or a folder that is trusted for this run. With `standby`, it waits for the end of a Kore on
    another machine that owns the data. With `has_workers`, other processes run the turns, except
    turns of terminals on this machine. Raises `AlreadyRunning` if another process owns the data,
    `StoreError`, `ConfigError`.
    """
    if channels and full_access is not None:
        raise ConfigError(full_access_refusal())
    home.ensure()
    async with AsyncExitStack() as stack:
        lock = stack.enter_context(ExitStack())
        if channels:
            ownership = await take_over(lock, home, "kore gateway")
        else:
            ownership = DataOwnership(
                lock.enter_context(acquire(home.lock, "kore agent")), attended
            )
        if count := await asyncio.to_thread(end_orphans, home.running_marker):
            log.warning("stopped %d leftover processes of a killed Kore", count)
        stack.enter_context(recorded_commands(home.running_marker))
        _discard_unfinished_restore(settings, home)
        remove_unfinished(home.root)
        ensure_workspace(settings.agent.workspace)
        cipher = store_cipher(settings, os.environ)
        database = python_store(settings) or await _open_store(
            settings,
            home,
            cipher,
            check=ownership.needs_recovery,
            standby=standby,
            has_workers=has_workers,
        )
        stack.push_async_callback(database.close)
        await asyncio.to_thread(
            outbound_files.delete_orphans,
            database.folder / outbound_files.FOLDER,
            await database.transact(outbound_files.paths_to_send),
            before=time.time() - _ROW_FOLLOWS_S if has_workers else inf,
        )
        files = shared_files(settings, cipher)
        has_full_access = full_access is not None
        is_alone = has_full_access or settings.trusted_for_run is not None
        choice = (
            SandboxChoice(Unconfined(), {})
            if has_full_access
            else await choose_sandbox(settings, home)
        )
        agent = await build_agent(settings, home, choice.sandbox, full_access=has_full_access)
        stack.push_async_callback(agent.aclose)
        agent.changes = open_change_log(database, home.undo, cipher, files)
        events = EventHub(AttentionRule(settings.screens.notify_after_s))
        front = open_front(settings, cipher, has_workers=has_workers)
        places = await places_of(settings, home, database)
        running: Channels = {}
        add_channel(running, ConsoleChannel(events))
        add_channel(running, ApiChannel(events))
        if channels:
            for channel in await open_channels(
                settings, home, database, stack, places, menu=menu()
            ):
                add_channel(running, channel)
        await database.transact(limit, running.keys())
        sections = channel_sections(settings)
        queues = {name: section.queue for name, section in sections.items()}
        await database.transact(set_queues, queues)
        await database.transact(recover, ownership.one_shot_lanes, has_workers=has_workers)
        redactor = redactor_of(settings, os.environ)
        # Tokens of MCP servers are known only after they are read.
        agent.redactor.teach(redactor)
        roles = RoleRegistry.of(settings)
        audit = await _open_audit_log(roles, home, redactor, stack)
        access = access_control(settings, running, places)
        access.token_role = token_roles(home)
        sandbox = "none (full access)" if has_full_access else str(choice)
        security = SecurityContext(access, roles, audit, redactor, sandbox, full_access)
        resources = Resources(
            *(home, database, agent, events, running, security, files, front.link),
            reservations=front.reservations,
            on_people_changed=front.notify_people,
            workers=front.status,
        )
        app = build_container(
            settings,
            resources,
            hands_over=not channels and not is_alone,
            config=config,
        )
        await database.transact(app.goals.pause_lost, time.time())
        await app.people.refresh()
        await app.audit_relay.flush()
        if await database.transact(preferences.get_state, preferences.DELETION):
            await _finish_deletion(app)
        log_paired_members(running, access)
        if settings.server.terminal == "full":
            log.warning('server.terminal is "full": terminals in the browser have no sandbox')
        if has_full_access:
            await audit.record(full_access_entry(settings.agent.workspace))
        control = nullcontext() if is_alone else _serve_control(app, home)
        async with (
            _run_tasks(app, database, events, is_gateway=channels),
            control,
            front.running(app, resources, settings),
        ):
            if channels:
                app.jobs.start_firing()
                await stack.enter_async_context(_serve_http(app, settings, running))
                if settings.server.listen is not None:
                    await stack.enter_async_context(_serve_clients(app, settings, home))
            yield app


def access_control(
    settings: Settings, channels: Channels, places: ChatSettingsIndex
) -> AccessControl:
    """Return the access control of the settings."""
    return AccessControl(
        owner_of(settings),
        allowed_senders(settings, channels),
        settings.access.roles,
        chat_settings=places,
    )


def shared_files(settings: Settings, cipher: Cipher | None) -> "SharedFiles | None":
    """Return the storage for files shared by several machines, if any. Raises `ConfigError`."""
    if settings.store.files is None:
        return None
    from gateway.store.files.opening import open_shared_files

    return open_shared_files(settings.store.files, cipher)


async def _finish_deletion(app: Container) -> None:
    log.info("finishing an interrupted deletion of a person's data")
    try:
        if failures := await app.user_data().finish():
            log.warning("%d of their files or folders could not be deleted", failures)
    except FileStoreError as exc:
        log.error("the deletion continues at the next start: %s", exc)


def token_roles(home: DataDir) -> Callable[[str], str | None]:
    """Return a lookup of access tokens' roles by name; None for a token without a role."""
    from gateway.server.tokens import TokenFile

    return TokenFile(home.tokens).role_of


async def _open_store(
    settings: Settings,
    home: DataDir,
    cipher: Cipher | None,
    *,
    check: bool,
    standby: bool,
    has_workers: bool,
) -> Store:
    """Open the store; raises `StoreError`, and without `standby` also `StoreInUse`."""
    lease_s = settings.store.lease_s
    watch = None
    if standby:
        from gateway.store.postgres.lease import ServerWatch

        watch = ServerWatch(lease_s)
    async with AsyncExitStack() as stack:
        is_announced = False
        while True:
            try:
                return open_store(
                    settings.store.url,
                    home.root,
                    check=check,
                    cipher=cipher,
                    lease_s=lease_s,
                    watch=watch,
                    has_workers=has_workers,
                )
            except StoreInUse as exc:
                if not standby:
                    raise
                if not is_announced:
                    log.info("standing by: Kore on %s owns the database", exc.owner)
                    is_announced = True
                    await _serve_standby(settings, stack)
                await asyncio.sleep(min(_STANDBY_S, lease_s / 5))


async def _serve_standby(settings: Settings, stack: AsyncExitStack) -> None:
    from gateway.control.health import serve_health, standby_pages

    pages = serve_health(settings.http.host, settings.http.port, standby_pages)
    try:
        await stack.enter_async_context(pages)
    except ConfigError as exc:
        # The owner may be on the same machine: the address is free after it has ended.
        log.info("no health pages while standing by: %s", exc)


def _discard_unfinished_restore(settings: Settings, home: DataDir) -> None:
    """Discard an unfinished restore; only a database in a file can have one."""
    if settings.store.path is not None:
        folders = (settings.agent.workspace, home.channels)
        discard_unfinished(settings.store.path, home.root, folders)


async def _open_audit_log(
    roles: RoleRegistry, home: DataDir, redactor: Redactor, stack: AsyncExitStack
) -> AuditLog:
    """Open the audit log; raises `AuditError`."""
    audit = AuditLog(
        home.audit,
        level=lambda: roles.audit_level,
        clean=redactor.clean,
        mark=home.audit_mark,
    )
    stack.push_async_callback(audit.close)
    await audit.open()
    return audit


@asynccontextmanager
async def _run_tasks(
    app: Container, database: Store, events: EventHub, *, is_gateway: bool
) -> AsyncIterator[None]:
    """Start lanes, senders and pollers, in this order; on exit the pollers end first.

    A gateway ends at once when another one has taken over the data.
    """
    async with asyncio.TaskGroup() as group:
        work = [
            group.create_task(app.bus.run(), name="bus"),
            group.create_task(app.sender.run(), name="delivery"),
            group.create_task(app.compactions.run(), name="compactions"),
            group.create_task(app.speech.run(), name="speech"),
            group.create_task(app.timer.run(), name="scheduler"),
            group.create_task(app.reports.run(), name="reports of commands"),
            group.create_task(app.terminals.run(), name="terminals"),
        ]
        if is_gateway:
            work.append(group.create_task(end_when_replaced(database), name="ownership"))
        if app.handover is not None:
            work.append(group.create_task(app.handover.run(), name="handover"))
        receiving = group.create_task(_receive(app), name="reception")
        try:
            yield
        finally:
            receiving.cancel()
            await asyncio.wait({receiving})
            try:
                async with asyncio.timeout(STOP_TIMEOUT_S):
                    await app.bus.drain()
                    await app.sender.flush()
            except TimeoutError:
                log.warning("stopped with unfinished work; it continues at the next start")
            events.close()
            for task in work:
                task.cancel()
            await asyncio.wait(work)
            await database.transact(claims.suspend_all)


async def _receive(app: Container) -> None:
    """Receive messages and their files."""
    async with asyncio.TaskGroup() as group:
        group.create_task(app.downloader.run(), name="downloads")
        group.create_task(app.supervisor.run(app.downloader.wrap_accept(app.bus.accept)))


@asynccontextmanager
async def _serve_control(app: Container, home: DataDir) -> AsyncIterator[None]:
    """Serve the control socket for other `kore` processes."""
    from gateway.control.server import ControlServer

    async with ControlServer(app.service, home.socket):
        yield


@asynccontextmanager
async def _serve_clients(app: Container, settings: Settings, home: DataDir) -> AsyncIterator[None]:
    """Serve clients, editors and browsers."""
    from gateway.server.listener import options_of, serve
    from gateway.server.tokens import TokenFile

    tokens = TokenFile(home.tokens)
    options = options_of(settings.server)
    async with serve(app.service, tokens, options, home.server_socket) as access:
        with published_access(home.server_access, access):
            log.info("serving clients at %s", access.web or access.address)
            yield


@asynccontextmanager
async def _serve_http(
    app: Container, settings: Settings, channels: Channels
) -> AsyncIterator[None]:
    """Serve health pages for supervisors, and the webhooks of platforms."""
    from gateway.control.health import answer, check_host, gateway_pages, serve_health

    def counts() -> dict[str, float]:
        return {
            "messages_accepted": app.bus.accepted_count,
            "turns_handled": app.bus.handled_count,
            "parts_sent": app.sender.sent_count,
            "sends_failed": app.sender.failed_count,
            "parts_given_up": app.sender.given_up_count,
        }

    host, port = settings.http.host, settings.http.port
    webhook_channels = {
        channel.hook_path: channel
        for channel in channels.values()
        if isinstance(channel, SupportsWebhook) and channel.hook_path
    }
    async with AsyncExitStack() as stack:
        pages = await stack.enter_async_context(
            gateway_pages(app.service, counts, app.turn_log.facts)
        )
        if not webhook_channels:
            await stack.enter_async_context(serve_health(host, port, pages))
        else:
            from gateway.control.webhooks import serve_webhooks

            check_host(host)
            page = partial(answer, pages=pages)
            await stack.enter_async_context(serve_webhooks(host, port, page, webhook_channels))
        yield


def add_channel(channels: Channels, channel: Channel) -> None:
    channels[channel.name, channel.account] = channel


def _restored_notice(messages: Sequence[int]) -> str:
    return plural(
        len(messages),
        "⚠️ A backup was restored. It was made while I was working on message {which}, "
        "which may already be done, so I stopped. `kore replay {first}` runs it again.",
        "⚠️ A backup was restored. It was made while I was working on messages {which}, "
        "which may already be done, so I stopped. `kore replay {first}` runs the first "
        "one again.",
        which=", ".join(map(str, messages)),
        first=messages[0],
    )


def recover(tx: Transaction, attended: Sequence[str], *, has_workers: bool = False) -> None:
    """Recover the last process's work, before anything runs; running workers keep theirs."""
    abandoned_count = turns.abandon(tx, ONCE, time.time(), attended)
    abandoned_count += subagent_tasks.abandon(tx, ONCE, time.time(), attended)
    if closed_count := restored_backup.settle(tx, time.time(), _restored_notice):
        log.warning("a backup was restored: closed %d unfinished messages", closed_count)
    for worker in (None, *(() if has_workers else claims.workers_at_work(tx))):
        usage.forget_reservations(tx, worker)
        claims.recover(tx, worker)
    approvals.recover(tx, time.time())
    session_folders.read_from_messages(tx)
    duplicate_count = outbox.recover(tx, time.time() + MAX_RETRY_INTERVAL_S)
    if abandoned_count or duplicate_count:
        log.info(
            "recovered: %d marked as possible duplicates, %d dropped",
            duplicate_count,
            abandoned_count,
        )
