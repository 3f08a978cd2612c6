"""The parts of a running gateway, made of what is open already and put together."""

import time
from collections.abc import Callable

from agent.agent import Agent
from agent.records import frozen
from agent.security.redaction import Redactor
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.access.approvals import ApprovalService
from gateway.access.control import AccessControl
from gateway.access.pairing_service import PairingService
from gateway.access.roles import RoleRegistry
from gateway.bus.bus import MessageBus
from gateway.bus.ingest import Ingestor
from gateway.channels.base import Channel
from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.channels.registry import allowed_senders, sole_owner
from gateway.channels.supervisor import ChannelSupervisor
from gateway.commands import is_command, read_command
from gateway.commands.dispatcher import CommandDispatcher, CommandServices
from gateway.config import Settings
from gateway.control.local_service import LocalService
from gateway.control.runtime_status import RuntimeStatus
from gateway.core.event_hub import EventHub
from gateway.delivery.sender import OutboxSender
from gateway.delivery.user_language import UserLanguages
from gateway.media.downloader import MediaDownloader
from gateway.media.transcription import Transcriber
from gateway.ops.audit.log import AuditLog
from gateway.ops.audit.relay import AuditRelay
from gateway.ops.config_reload import ReloadTargets
from gateway.scheduler.service import JobService
from gateway.scheduler.timer import JobTimer
from gateway.store.sqlite.engine import SqliteStore
from gateway.turns.compaction import CompactionService
from gateway.turns.permissions import TurnPermissions
from gateway.turns.runner import TurnRunner
from gateway.turns.usage_limits import warn_unenforceable
from gateway.turns.usage_meter import StoreUsageMeter

# By name and account.
Channels = dict[tuple[str, str], Channel]


@frozen
class Container:
    """The running parts that others speak to; `forget` drops what is in memory of a session."""

    service: LocalService
    bus: MessageBus
    sender: OutboxSender
    channels: ChannelSupervisor
    compactions: CompactionService
    reload_targets: ReloadTargets
    database: SqliteStore
    downloader: MediaDownloader
    evict_window: Callable[[str], None]
    scheduler: JobTimer


@frozen
class SecurityContext:
    """Who decides, who records it, what may never be shown, in words what holds commands, and
    what is said of single chats."""

    policies: RoleRegistry
    audit: AuditLog
    redactor: Redactor
    sandbox: str
    places: ChatSettingsIndex


def build_container(
    settings: Settings,
    database: SqliteStore,
    agent: Agent,
    watchers: EventHub,
    ways: Channels,
    safety: SecurityContext,
) -> Container:
    """Nothing runs yet and nothing is awaited."""
    owner = sole_owner(settings.access.owner, settings.telegram.allow_from)
    allow = {key: allowed_senders(settings, key) for key in ways}
    access = AccessControl(owner, allow, settings.access.roles, places=safety.places)
    languages = UserLanguages(settings.agent.language)
    delivery = OutboxSender(database, ways, redactor=safety.redactor, languages=languages)
    clerk = ApprovalService(delivery, access, expires_s=settings.security.approval_timeout_s)
    approvals = ApprovalCoordinator(database, delivery, watchers, clerk)
    held = agent.settings.tools.sandbox
    confined = held is not None and held.confines
    rules = TurnPermissions(
        access,
        approvals,
        settings.agent.workspace,
        safety.policies,
        confined,
        audit=safety.audit,
        schedule=settings.schedule,
    )
    spending = StoreUsageMeter(
        database, delivery, access, settings.limits, errand_usd=settings.subagents.max_cost_usd
    )
    warn_unenforceable(settings.limits, agent.models)
    timetable = JobService(database, delivery, rules)
    work = TurnRunner(database, agent, delivery, watchers, rules, spending, timetable, is_command)
    reception = ChannelSupervisor(ways)
    facts = RuntimeStatus(
        models=lambda: agent.models,
        workspace=settings.agent.workspace,
        channels=ways,
        supervisor=reception,
        started_at=time.monotonic(),
        sandbox=safety.sandbox,
        exec_hosts=settings.security.exec_hosts if confined else (),
    )
    door = PairingService(access, delivery.render, languages)
    office = CommandServices(
        agent=agent,
        database=database,
        windows=work.windows,
        pairing=door,
        status=facts.for_chat,
        default_mode=safety.policies.default_mode,
        compact=work.compactions.compact,
        audience=work.speaking,
        permissions=rules,
        languages=languages,
        jobs=timetable,
        default_trace=delivery.trace,
    )
    notes = AuditRelay(database, safety.audit)
    intake = Ingestor(database, door, delivery, clerk, notes, read_command)
    bus = MessageBus(database, intake, CommandDispatcher(office), work, approvals)
    return Container(
        service=LocalService(database, bus, watchers, approvals, work, timetable, facts),
        bus=bus,
        sender=delivery,
        channels=reception,
        compactions=work.compactions,
        reload_targets=ReloadTargets(
            agent=agent,
            policies=safety.policies,
            access=access,
            usage=spending,
            sender=delivery,
            approvals=clerk,
            channels=ways,
            redactor=safety.redactor,
            bus=bus,
        ),
        database=database,
        downloader=MediaDownloader(
            database,
            delivery,
            rules,
            media=settings.media,
            hears=Transcriber(settings.transcription).transcribe,
        ),
        evict_window=work.windows.evict,
        scheduler=JobTimer(database, timetable, bus, delivery),
    )
