"""Parts of a running gateway, built from open resources; tests use the same function."""

import time
from collections.abc import Callable
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from agent.context.project.directory_tree import TreeLimits
from agent.records import frozen
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.access.control import AccessControl
from gateway.access.pairing import PairingCodes
from gateway.access.people import PeopleDirectory
from gateway.access.wiring import wire_access
from gateway.bus.bus import MAX_CONCURRENT_TURNS, MessageBus
from gateway.bus.ingest import Ingestor
from gateway.bus.wiring import wire_bus
from gateway.calls.context import MAX_FETCHES, ConsoleReservations, OwnerAudit, ServiceContext
from gateway.calls.local_service import local_service
from gateway.channels.supervisor import ChannelSupervisor
from gateway.channels.table import folders_of_chats
from gateway.commands.dispatcher import CommandDispatcher, CommandServices
from gateway.commands.skill_calls import CommandReader
from gateway.config import Settings
from gateway.control.handover import Handover
from gateway.control.runtime_status import RuntimeStatus
from gateway.control.service import Service
from gateway.core.messages import Route
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.delivery.user_language import UserLanguages
from gateway.delivery.wiring import wire_delivery
from gateway.media.downloader import MediaDownloader
from gateway.media.speech import SpeechService
from gateway.media.wiring import wire_media
from gateway.ops.audit.relay import AuditRelay
from gateway.ops.config_reload import ConfigReloader, WatchedConfig
from gateway.ops.wiring import wire_audit_relay, wire_operations
from gateway.resources import Resources, Timing
from gateway.runtime.sandbox import reachable_hosts
from gateway.scheduler.service import JobService
from gateway.scheduler.timer import JobTimer
from gateway.scheduler.wiring import wire_scheduler
from gateway.sessions.background_work import BackgroundWork
from gateway.sessions.sent_files import SentFiles
from gateway.sessions.wiring import wire_sessions
from gateway.store.port import Transaction
from gateway.terminals.registry import TerminalRegistry
from gateway.turns.agents.subagents import SubagentCoordinator
from gateway.turns.command_reports import CommandReports
from gateway.turns.compaction import CompactionService
from gateway.turns.goals import GoalService
from gateway.turns.runner import TurnRunner
from gateway.turns.usage.model_caller import ModelCaller
from gateway.turns.usage.turn_log import TurnLog
from gateway.turns.wiring import wire_permissions, wire_turns, wire_usage

if TYPE_CHECKING:
    from gateway.ops.user_data import UserDataService


@frozen
class Container:
    """Running parts of a gateway.

    `handover` is set if the data can be handed over, `reloader` if configuration files are watched.
    """

    access: AccessControl
    approvals: ApprovalCoordinator
    audit_relay: AuditRelay
    background: BackgroundWork
    bus: MessageBus
    codes: PairingCodes
    compactions: CompactionService
    downloader: MediaDownloader
    goals: GoalService
    handover: Handover | None
    ingestor: Ingestor
    jobs: JobService
    languages: UserLanguages
    people: PeopleDirectory
    reloader: ConfigReloader | None
    renderer: ReplyRenderer
    reports: CommandReports
    sender: OutboxSender
    service: Service
    speech: SpeechService
    subagents: SubagentCoordinator
    supervisor: ChannelSupervisor
    terminals: TerminalRegistry
    timer: JobTimer
    turn_log: TurnLog
    turns: TurnRunner
    user_data: Callable[[], "UserDataService"]


def build_container(
    settings: Settings,
    resources: Resources,
    *,
    hands_over: bool = False,
    config: WatchedConfig | None = None,
    timing: Timing | None = None,
    concurrent_turns: int = MAX_CONCURRENT_TURNS,
) -> Container:
    """Build all parts, without starting or awaiting anything."""
    timing, link, security = timing or Timing(), resources.link, resources.security
    database, agent, events = resources.database, resources.agent, resources.events

    # Circular dependencies: parts that are built first call parts that are built later.
    def wake_lane(lane: str) -> None:
        bus.wake(lane)

    def deny_unseen(tx: Transaction, delivery_id: str) -> Callable[[], None]:
        return access.approvals.deny_unseen(tx, delivery_id)

    def record_unreachable(
        tx: Transaction, route: Route, reason: str, now: float
    ) -> tuple[int, str | None]:
        return access.membership.record_unreachable(tx, route, reason, now)

    delivery = wire_delivery(
        database=database,
        channels=resources.channels,
        redactor=security.redactor,
        language=settings.agent.language,
        files=resources.files,
        pass_on=link.pass_on_mail,
        on_people_changed=resources.on_people_changed,
        on_given_up=deny_unseen,
        record_unreachable=record_unreachable,
        clock=timing.sender_clock,
        wait=timing.sender_wait,
    )
    access = wire_access(
        database=database,
        control=security.access,
        delivery=delivery,
        events=events,
        approval_timeout_s=settings.security.approval_timeout_s,
        wake=wake_lane,
        announce_question=link.announce_question,
        announce_settlement=link.announce_settlement,
        on_people_changed=resources.on_people_changed,
    )
    permissions = wire_permissions(settings, security, access.approvals, agent)
    usage = wire_usage(
        settings=settings,
        security=security,
        agent=agent,
        database=database,
        delivery=delivery,
        reservations=resources.reservations(database),
        clock=timing.usage_clock,
    )
    sessions = wire_sessions(
        settings=settings,
        agent=agent,
        database=database,
        events=events,
        wake=wake_lane,
        process=link.number,
        is_shared=link.is_shared,
        end_elsewhere=link.end_session,
    )
    media = wire_media(
        settings=settings,
        agent=agent,
        database=database,
        delivery=delivery,
        inboxes=permissions,
        files=resources.files,
        wake=wake_lane,
    )
    scheduler = wire_scheduler(
        settings=settings,
        security=security,
        permissions=permissions,
        database=database,
        delivery=delivery,
        wake=wake_lane,
        clock=timing.job_clock,
        wait=timing.job_wait,
    )
    command_reader = CommandReader(agent, security.access)
    turns = wire_turns(
        settings=settings,
        home=resources.home,
        agent=agent,
        database=database,
        events=events,
        delivery=delivery,
        sessions=sessions,
        media=media,
        permissions=permissions,
        usage=usage,
        jobs=scheduler.jobs,
        wake=wake_lane,
        is_command=command_reader.is_command,
        needs_own_turn=command_reader.needs_own_turn,
        is_shared=link.is_shared,
        report_limits=timing.reports,
        newcomers_wait_s=timing.newcomers_wait_s,
        skill_offer_after_s=timing.skill_offer_after_s,
    )
    if folders_of_chats(settings):
        context = settings.context
        agent.projects.shape = TreeLimits(context.max_tree_depth, context.max_files_per_dir)
    supervisor = ChannelSupervisor(resources.channels)
    status = RuntimeStatus(
        models=lambda: agent.models,
        workspace=settings.agent.workspace,
        channels=resources.channels,
        supervisor=supervisor,
        started_at=time.monotonic(),
        sandbox=security.sandbox,
        exec_hosts=reachable_hosts(settings) if permissions.confined else (),
        language_servers=lambda: agent.code.status() if agent.code is not None else (),
    )
    command_services = CommandServices(
        home=resources.home,
        agent=agent,
        database=database,
        access=security.access,
        pairing=access.pairing,
        permissions=permissions,
        status=status.for_chat,
        default_mode=security.roles.default_mode,
        compact=turns.compactions.compact,
        renderer=delivery.renderer,
        languages=delivery.languages,
        jobs=scheduler.jobs,
        goals=turns.goals,
    )
    audit_relay = wire_audit_relay(database, security.audit, resources.home)
    bus_parts = wire_bus(
        database=database,
        control=security.access,
        events=events,
        delivery=delivery,
        access=access,
        turns=turns,
        audit_notes=audit_relay,
        commands=CommandDispatcher(command_services, command_reader),
        link=link,
        concurrent_turns=concurrent_turns,
        on_people_changed=resources.on_people_changed,
    )
    bus = bus_parts.bus
    operations = wire_operations(
        settings=settings,
        home=resources.home,
        security=security,
        agent=agent,
        database=database,
        channels=resources.channels,
        delivery=delivery,
        access=access,
        windows=sessions.windows,
        usage=usage,
        bus=bus,
        audit_relay=audit_relay,
        files=resources.files,
        config=config,
    )
    handover = Handover(database=database, bus=bus, events=events) if hands_over else None
    service = local_service(
        ServiceContext(
            agent=agent,
            approvals=access.approvals,
            audit_relay=audit_relay,
            background=sessions.background,
            bus=bus,
            console_reservations=ConsoleReservations(),
            database=database,
            default_mode=security.roles.default_mode,
            editors=sessions.editors,
            events=events,
            feed=sessions.feed,
            handover=handover,
            jobs=scheduler.jobs,
            languages=delivery.languages,
            model_calls=ModelCaller(agent, database, usage),
            owner_audit=OwnerAudit(security.audit),
            pairing=access.pairing,
            plugin_fetches=BoundedSemaphore(MAX_FETCHES),
            reloader=operations.reloader,
            renderer=delivery.renderer,
            screens=operations.screens,
            sender=delivery.sender,
            sent_files=SentFiles(database, operations.screens.files),
            sessions=sessions.service,
            status=status,
            terminals=operations.terminals,
            turn_log=usage.turns,
            uploads=media.uploads,
            user_data=operations.user_data,
            workers=resources.workers,
        )
    )
    return Container(
        access=security.access,
        approvals=access.approvals,
        audit_relay=audit_relay,
        background=sessions.background,
        bus=bus,
        codes=access.codes,
        compactions=turns.compactions,
        downloader=media.downloader,
        goals=turns.goals,
        handover=handover,
        ingestor=bus_parts.ingestor,
        jobs=scheduler.jobs,
        languages=delivery.languages,
        people=access.people,
        reloader=operations.reloader,
        renderer=delivery.renderer,
        reports=turns.reports,
        sender=delivery.sender,
        service=service,
        speech=media.speech,
        subagents=turns.subagents,
        supervisor=supervisor,
        terminals=operations.terminals,
        timer=scheduler.timer,
        turn_log=usage.turns,
        turns=turns.runner,
        user_data=operations.user_data,
    )
