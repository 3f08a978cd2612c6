"""The gateway's parts on a real database, without sockets, for the tests of each."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.agent import Agent
from agent.providers.base import Provider
from agent.providers.pool import ModelPool
from agent.providers.scripted import ScriptedProvider, Step
from agent.security.policy.base import PermissionMode
from agent.subagents.catalog import CatalogPaths, SubagentCatalog
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.access.approvals import ApprovalService
from gateway.access.control import AccessControl
from gateway.access.pairing_service import PairingService
from gateway.access.roles import PolicySettings, RoleRegistry
from gateway.bus.bus import MessageBus
from gateway.bus.ingest import Ingestor
from gateway.channels.base import Channel
from gateway.channels.console import ConsoleChannel
from gateway.commands import is_command, read_command
from gateway.commands.dispatcher import CommandDispatcher, CommandServices
from gateway.control.local_service import LocalService
from gateway.core.event_hub import EventHub
from gateway.core.messages import InboundMessage, Sender
from gateway.delivery.retry_policy import LONGEST_REST_S
from gateway.delivery.sender import OutboxSender
from gateway.ops.audit.log import AuditLog
from gateway.ops.audit.relay import AuditRelay
from gateway.scheduler.service import JobService
from gateway.sessions.undo_ledger import open_change_log
from gateway.store.cipher import Cipher
from gateway.store.repositories import approvals as approvals_store
from gateway.store.repositories import claims, outbox
from gateway.store.sqlite.engine import SqliteStore
from gateway.turns.permissions import TurnPermissions
from gateway.turns.runner import TurnRunner
from gateway.turns.usage_meter import StoreUsageMeter
from tests.fakes.platform import Platform
from tests.fakes.rehearsing_store import RehearsingStore
from tests.gateway.stored import PRESENT, StoredRows

_numbers = itertools.count(1)


def said(text: str, chat: str = "1", **more: Any) -> InboundMessage:
    """A new message of person 7 in a chat of the platform."""
    number = next(_numbers)
    fields: dict[str, Any] = {
        "channel": "chat",
        "account": "bot",
        "chat_id": chat,
        "sender": Sender("7", "Ann"),
        "event_id": f"{chat}:{number}",
        "content": text,
        "received_at": time.time(),
        "message_id": str(number),
    }
    return InboundMessage(**{**fields, **more})


def typed(text: str, chat: str = "main", **more: Any) -> InboundMessage:
    """A new message of the owner at the console."""
    return said(text, chat, channel="cli", account="local", **more)


@dataclass(frozen=True)
class Parts(StoredRows):
    """`crash` leaves everything as a kill would: nothing is tidied up."""

    database: SqliteStore
    bus: MessageBus
    delivery: OutboxSender
    watchers: EventHub
    approvals: ApprovalCoordinator
    turns: TurnRunner
    desk: LocalService
    platform: Platform
    agent: Agent
    workspace: Path

    async def until_answered(self, message: InboundMessage) -> None:
        """Returns once the turn that took it in is done."""
        (turn,) = await self.until_stored(
            "inbox", "turn_id", event_id=message.event_id, turn_id=PRESENT
        )
        await self.until_stored("turn", id=turn, state="done")


@asynccontextmanager
async def opened(
    folder: Path,
    provider: Provider | ModelPool | Sequence[Step],
    *,
    platform: Platform | None = None,
    allow: Sequence[str] = ("*",),
    owner: str | None = None,
    delivering: Mapping[str, Any] | None = None,
    concurrent_turns: int = 128,
    modes: Mapping[str, PermissionMode] | None = None,
    spending: Mapping[str, Any] | None = None,
    expires_s: float = 3600.0,
    cipher: Cipher | None = None,
) -> AsyncIterator[Parts]:
    """The parts, not yet running."""
    platform = platform or Platform()
    watchers = EventHub()
    ways: dict[tuple[str, str], Channel] = {
        (platform.name, platform.account): platform,
        ("cli", "local"): ConsoleChannel(watchers),
    }
    if isinstance(provider, Sequence):
        provider = ScriptedProvider(provider)
    models = provider if isinstance(provider, ModelPool) else ModelPool.of(provider, {})
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    database = RehearsingStore.open(folder / "kore.db", cipher=cipher)
    audit = AuditLog(folder / "audit")
    agents = SubagentCatalog(CatalogPaths(folder / "nobody", folder / "kore"))
    agent = Agent(models, workspace=workspace, subagents=agents)
    try:
        await database.transact(claims.recover)
        await database.transact(approvals_store.recover, time.time())
        await database.transact(outbox.recover, time.time() + LONGEST_REST_S)
        agent.changes = open_change_log(database, folder / "undo", None)
        access = AccessControl(owner, dict.fromkeys(ways, allow), {platform.name: "general"})
        delivery = OutboxSender(database, ways, **(delivering or {}))
        clerk = ApprovalService(delivery, access, expires_s=expires_s)
        approvals = ApprovalCoordinator(database, delivery, watchers, clerk)
        policies = RoleRegistry(PolicySettings(blocked_commands=("rm",), modes=modes or {}))
        rules = TurnPermissions(access, approvals, workspace, policies)
        meters = StoreUsageMeter(database, delivery, access, **(spending or {}))
        timetable = JobService(database, delivery, rules)
        turns = TurnRunner(
            database, agent, delivery, watchers, rules, meters, timetable, is_command
        )
        door = PairingService(access, delivery.render, delivery.languages)
        facts = {"Uptime": "short"}
        office = CommandServices(
            agent,
            database,
            turns.windows,
            door,
            lambda: facts,
            policies.default_mode,
            turns.compactions.compact,
            turns.speaking,
            rules,
            delivery.languages,
            timetable,
            delivery.trace,
        )
        commands = CommandDispatcher(office)
        notes = AuditRelay(database, audit)
        intake = Ingestor(database, door, delivery, clerk, notes, read_command)
        bus = MessageBus(
            database, intake, commands, turns, approvals, concurrent_turns=concurrent_turns
        )
        desk = LocalService(database, bus, watchers, approvals, turns, timetable, dict)
        yield Parts(
            *(database, bus, delivery, watchers, approvals, turns, desk, platform),
            agent,
            workspace,
        )
    finally:
        await agent.toolbox.aclose()
        await audit.close()
        await database.close()


@asynccontextmanager
async def running(
    folder: Path, provider: Provider | ModelPool | Sequence[Step], **more: Any
) -> AsyncIterator[Parts]:
    """The parts at work; leaving the block is as sudden as a kill."""
    async with opened(folder, provider, **more) as parts, at_work(parts):
        yield parts


@asynccontextmanager
async def at_work(parts: Parts) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        work = [
            group.create_task(parts.bus.run(), name="bus"),
            group.create_task(parts.delivery.run(), name="delivery"),
            group.create_task(parts.turns.compactions.run(), name="compactions"),
        ]
        try:
            yield
        finally:
            for task in work:
                task.cancel()


async def settled(condition: Callable[[], object], deadline_s: float = 30) -> None:
    """Returns once the condition holds."""
    async with asyncio.timeout(deadline_s):
        while not condition():
            await asyncio.sleep(0.005)


async def ended(task: "asyncio.Task[Any]") -> None:
    """Cancel it and wait for its end."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
