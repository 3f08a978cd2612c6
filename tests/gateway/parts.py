"""Parts of the gateway on a real database without sockets, for unit tests."""

import asyncio
import itertools
import json
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
from agent.security.redaction import Redactor
from agent.subagents.catalog import CatalogPaths, SubagentCatalog
from agent.tools.base import Tool
from agent.types import Message, ToolCall
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.access.control import AccessControl
from gateway.access.roles import PolicySettings, RoleRegistry
from gateway.access.wiring import SecurityContext
from gateway.app import recover
from gateway.bus.bus import MAX_CONCURRENT_TURNS, MessageBus
from gateway.bus.link import ProcessLink, SoleProcess
from gateway.channels.clients import ApiChannel, ConsoleChannel
from gateway.config import Settings
from gateway.config.sections import AgentSection, Section
from gateway.container import Container, build_container
from gateway.control.service import Service
from gateway.core.attention import AttentionRule
from gateway.core.channel_events import Batch
from gateway.core.event_hub import EventHub
from gateway.core.messages import InboundMessage, MessageOptions, Sender
from gateway.delivery.sender import OutboxSender
from gateway.ops.audit.log import AuditLog
from gateway.resources import Channels, Resources, Timing
from gateway.runtime.paths import DataDir
from gateway.sessions.undo_ledger import open_change_log
from gateway.store.cipher import Cipher
from gateway.store.files.file_store import SharedFiles
from gateway.store.port import Store
from gateway.store.repositories.conversations import sessions
from gateway.turns.runner import TurnRunner
from gateway.turns.usage.reservations import MemoryReservations, Reservations
from tests.fakes.platform import Platform
from tests.gateway.databases import OpenStore, open_database
from tests.gateway.stored import PRESENT, StoredRows

_numbers = itertools.count(1)


def chat_message(text: str, chat: str = "1", **more: Any) -> InboundMessage:
    """Return a new message of person 7 in a chat of the platform."""
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
    if isinstance(options := more.get("options"), dict):
        more["options"] = MessageOptions.from_json(options)
    return InboundMessage(**{**fields, **more})


def console_message(text: str, chat: str = "main", **more: Any) -> InboundMessage:
    """Return a new message of the owner at the console."""
    return chat_message(text, chat, channel="cli", account="local", **more)


@dataclass(frozen=True)
class Parts(StoredRows):
    """Container of the program and the objects that it was built from."""

    app: Container
    database: OpenStore
    events: EventHub
    platform: Platform
    agent: Agent
    workspace: Path

    @property
    def bus(self) -> MessageBus:
        return self.app.bus

    @property
    def sender(self) -> OutboxSender:
        return self.app.sender

    @property
    def approvals(self) -> ApprovalCoordinator:
        return self.app.approvals

    @property
    def turns(self) -> TurnRunner:
        return self.app.turns

    @property
    def service(self) -> Service:
        return self.app.service

    async def until_answered(self, message: InboundMessage) -> None:
        """Wait until the turn that took the message in is done."""
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
    settings: Mapping[str, Section] | None = None,
    timing: Timing | None = None,
    concurrent_turns: int = MAX_CONCURRENT_TURNS,
    modes: Mapping[str, PermissionMode] | None = None,
    policy: Path | None = None,
    cipher: Cipher | None = None,
    tools: Sequence[Tool] = (),
    reservations: Callable[[Store], Reservations] = MemoryReservations,
    on_people_changed: Callable[[], None] = lambda: None,
    files: SharedFiles | None = None,
    link: ProcessLink | None = None,
) -> AsyncIterator[Parts]:
    """Build the program's container without running it.

    `settings` are sections with values other than the defaults; `files` are the files that other
    machines see.
    """
    platform = platform or Platform()
    sections = {"agent": AgentSection(workspace=folder / "workspace"), **(settings or {})}
    all_settings = Settings().model_copy(update=sections)
    events = EventHub(AttentionRule(all_settings.screens.notify_after_s))
    console = ConsoleChannel(events)
    api = ApiChannel(events)
    channels: Channels = {(item.name, item.account): item for item in (platform, console, api)}
    if isinstance(provider, Sequence):
        provider = ScriptedProvider(provider)
    models = provider if isinstance(provider, ModelPool) else ModelPool.of(provider, {})
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    database = open_database(folder / "kore.db", cipher)
    audit = AuditLog(folder / "audit")
    agents = SubagentCatalog(CatalogPaths(folder / "nobody", folder / "kore"))
    agent = Agent(models, workspace=workspace, subagents=agents, tools=tools)
    try:
        await database.transact(recover, ())
        agent.changes = open_change_log(database, folder / "undo", None, files)
        security = SecurityContext(
            access=AccessControl(owner, dict.fromkeys(channels, allow), {platform.name: "general"}),
            roles=RoleRegistry(PolicySettings(policy, blocked_commands=("rm",), modes=modes or {})),
            audit=audit,
            redactor=Redactor(),
            sandbox="none",
        )
        app = build_container(
            all_settings,
            Resources(
                *(DataDir(folder), database, agent, events, channels, security),
                files=files,
                link=link or SoleProcess(),
                reservations=reservations,
                on_people_changed=on_people_changed,
            ),
            timing=timing,
            concurrent_turns=concurrent_turns,
        )
        yield Parts(app, database, events, platform, agent, workspace)
    finally:
        await agent.toolbox.aclose()
        await audit.close()
        await database.close()


@asynccontextmanager
async def running(
    folder: Path, provider: Provider | ModelPool | Sequence[Step], **more: Any
) -> AsyncIterator[Parts]:
    """Run the parts; leaving the block is as abrupt as a kill."""
    async with opened(folder, provider, **more) as parts, at_work(parts):
        yield parts


@asynccontextmanager
async def at_work(parts: Parts) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        work = [
            group.create_task(parts.bus.run(), name="bus"),
            group.create_task(parts.sender.run(), name="delivery"),
            group.create_task(parts.app.compactions.run(), name="compactions"),
            group.create_task(parts.app.reports.run(), name="reports"),
            group.create_task(parts.app.terminals.run(), name="terminals"),
        ]
        try:
            yield
        finally:
            for task in work:
                task.cancel()


async def accept_messages(parts: Parts, *messages: InboundMessage) -> None:
    """Deliver messages of one chat platform as one batch."""
    first = messages[0]
    await parts.bus.accept(first.channel, first.account, Batch(messages))


async def answer_to(parts: Parts, message: InboundMessage) -> str:
    """Return the last message shown in the chat once this message was answered."""
    shown_messages = parts.platform.chats[message.chat_id]
    count = len(shown_messages)
    await accept_messages(parts, message)
    await parts.platform.until(lambda: len(shown_messages) > count)
    return shown_messages[-1].text


async def load_history(parts: Parts) -> list[Message]:
    """Return the messages of the only session."""
    ((session,),) = await parts.stored("session", "id")
    return await parts.database.transact(sessions.load_all, session)


def tool_call(id_: str, name: str, **arguments: object) -> ToolCall:
    return ToolCall(id_, name, arguments, json.dumps(arguments))


async def wait_until(condition: Callable[[], object], deadline_s: float = 30) -> None:
    """Wait until the condition is true."""
    async with asyncio.timeout(deadline_s):
        while not condition():
            await asyncio.sleep(0.005)


async def cancel_and_wait(task: "asyncio.Task[Any]") -> None:
    """Cancel the task and wait for its end."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
