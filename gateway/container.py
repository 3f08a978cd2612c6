"""Parts of a running gateway, built from open resources; tests use the same function."""

import time
from collections.abc import Callable
from functools import partial
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from agent.context.project.directory_tree import TreeLimits
from agent.records import frozen
from agent.run.contributors.background import BackgroundFacts
from agent.run.contributors.memory import MemoryReminder
from agent.run.contributors.project import ProjectNews
from agent.run.contributors.taint import WorkspaceTaint
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.access.approvals import ApprovalService
from gateway.access.chat_membership import ChatMembership
from gateway.access.control import AccessControl
from gateway.access.pairing import PairingCodes
from gateway.access.pairing_service import PairingService
from gateway.access.people import PeopleDirectory
from gateway.bus.bus import CONCURRENT_TURNS, MessageBus
from gateway.bus.command_runner import CommandRunner
from gateway.bus.ingest import Ingestor
from gateway.calls.context import MAX_FETCHES, ConsoleReservations, ServiceContext
from gateway.calls.local_service import local_service
from gateway.calls.owner_audit import OwnerAudit
from gateway.channels.supervisor import ChannelSupervisor
from gateway.channels.table import folders_of_chats
from gateway.commands.dispatcher import CommandDispatcher, CommandServices
from gateway.commands.skill_calls import CommandReader
from gateway.config import Settings
from gateway.control.handover import Handover
from gateway.control.runtime_status import RuntimeStatus
from gateway.control.service import Service
from gateway.core.channel_table import CHANNELS
from gateway.delivery.outbound_files import FOLDER, OutgoingFiles
from gateway.delivery.renderer import ReplyRenderer
from gateway.delivery.sender import OutboxSender
from gateway.delivery.user_language import UserLanguages
from gateway.media.downloader import MediaDownloader, shared_inbox
from gateway.media.speech import SpeechService
from gateway.media.transcription import Transcriber
from gateway.media.uploads import Uploads
from gateway.ops.audit.log import AuditLog
from gateway.ops.audit.relay import AuditRelay
from gateway.ops.config_reload import ConfigReloader, ReloadTargets, WatchedConfig
from gateway.ops.screens import ScreenData
from gateway.resources import Resources, Timing
from gateway.scheduler.job_context import FiredJobs, JobContext
from gateway.scheduler.service import JobService
from gateway.scheduler.timer import JobTimer
from gateway.sessions.background_work import BackgroundWork
from gateway.sessions.editor_hub import EditorHub
from gateway.sessions.project_feed import ProjectFeed
from gateway.sessions.sent_files import SentFiles
from gateway.sessions.service import SessionService
from gateway.sessions.session_servers import SessionServers
from gateway.sessions.similarity import similarity_of
from gateway.sessions.window_cache import SessionWindowCache
from gateway.store.port import Transaction
from gateway.terminals.registry import TerminalRegistry
from gateway.turns.agents.styles import find_style
from gateway.turns.agents.subagents import SubagentCoordinator
from gateway.turns.command_reports import CommandReports
from gateway.turns.commit import TurnCommitter
from gateway.turns.compaction import CompactionService
from gateway.turns.contributors import (
    AnswerStyle,
    MessageTaint,
    ReceivedFiles,
    ServerQuoteReader,
    SkillCalls,
)
from gateway.turns.isolation import Isolation
from gateway.turns.permissions import TurnPermissions
from gateway.turns.requests import TurnRequests
from gateway.turns.runner import TurnRunner
from gateway.turns.screens import TurnScreens
from gateway.turns.store import TurnStores
from gateway.turns.usage.limits import warn_unenforceable
from gateway.turns.usage.meter import StoreUsageMeter
from gateway.turns.usage.model_caller import ModelCaller
from gateway.turns.usage.turn_log import TurnLog

if TYPE_CHECKING:
    from gateway.ops.user_data import UserDataService


@frozen
class Container:
    """The running parts of a gateway.

    `handover` is set where the data can be handed over, `reloader` where files of the configuration
    are watched.
    """

    access: AccessControl
    approvals: ApprovalCoordinator
    audit_relay: AuditRelay
    background: BackgroundWork
    bus: MessageBus
    codes: PairingCodes
    compactions: CompactionService
    downloader: MediaDownloader
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
    concurrent_turns: int = CONCURRENT_TURNS,
) -> Container:
    """Build all parts, without starting or awaiting anything."""
    timing, link = timing or Timing(), resources.link
    database, agent = resources.database, resources.agent
    events, channels, files = resources.events, resources.channels, resources.files
    access, redactor = resources.security.access, resources.security.redactor

    # Callbacks into parts that are built below.
    def wake_lane(lane: str) -> None:
        bus.wake(lane)

    def wake_fired(fired: FiredJobs) -> None:
        timer.wake(fired)

    def deny_unseen(tx: Transaction, delivery_id: str) -> Callable[[], None]:
        return approvals.deny_unseen(tx, delivery_id)

    languages = UserLanguages(settings.agent.language, resources.on_people_changed)
    renderer = ReplyRenderer(channels, redactor)
    membership = ChatMembership(access=access, renderer=renderer, languages=languages)
    sender = OutboxSender(
        database=database,
        renderer=renderer,
        languages=languages,
        when_given_up=deny_unseen,
        record_unreachable=membership.record_unreachable,
        clock=timing.sender_clock,
        wait=timing.sender_wait,
        pass_on=link.pass_on_mail,
        outgoing=OutgoingFiles(
            database.folder / FOLDER,
            files.outgoing if files else None,
            sends=link.pass_on_mail is None,
        ),
    )
    approval_service = ApprovalService(
        renderer=renderer,
        languages=languages,
        access=access,
        expires_s=settings.security.approval_timeout_s,
    )
    approvals = ApprovalCoordinator(
        database=database,
        service=approval_service,
        renderer=renderer,
        sender=sender,
        events=events,
        wake=wake_lane,
        tell_asked=link.tell_asked,
        tell_settled=link.tell_settled,
    )
    sandbox = agent.settings.tools.sandbox
    confined = sandbox is not None and sandbox.confines
    permissions = TurnPermissions(
        access=access,
        approvals=approvals,
        workspace=settings.agent.workspace,
        policies=resources.security.roles,
        confined=confined,
        audit=resources.security.audit,
        full_access=resources.security.full_access,
        default_agent=settings.agent.default_agent,
    )
    usage = StoreUsageMeter(
        database=database,
        renderer=renderer,
        sender=sender,
        languages=languages,
        access=access,
        reservations=resources.reservations(database),
        limits=settings.limits,
        clock=timing.usage_clock,
        subagent_max_cost_usd=settings.subagents.max_cost_usd,
    )
    received = shared_inbox(settings.media, files, permissions)
    warn_unenforceable(settings.limits, agent.models)
    job_context = JobContext(
        access=access,
        roles=resources.security.roles,
        permissions=permissions,
        workspace=settings.agent.workspace,
        schedule=settings.schedule,
        renderer=renderer,
        languages=languages,
    )
    jobs = JobService(
        database=database,
        context=job_context,
        on_fired=wake_fired,
        is_held=resources.security.full_access is not None,
    )
    windows = SessionWindowCache(database, is_shared=link.is_shared)
    isolation = Isolation(timing.newcomers_wait_s)
    session_servers = SessionServers(
        lambda: agent.settings.tools, agent.redactor.learn, lambda: agent.mcp
    )
    editors = EditorHub(session_servers)
    compactions = CompactionService(
        database=database,
        agent=agent,
        windows=windows,
        renderer=renderer,
        sender=sender,
        events=events,
        usage=usage,
        audience=permissions.audience,
    )
    speech = SpeechService(
        settings=settings.tts, database=database, renderer=renderer, sender=sender
    )
    subagents = SubagentCoordinator(
        database=database,
        agent=agent,
        permissions=permissions,
        renderer=renderer,
        sender=sender,
        wake=wake_lane,
        is_shared=link.is_shared,
    )
    background = BackgroundWork(
        agent=agent,
        database=database,
        events=events,
        process=link.number,
        on_end=link.end_session,
    )
    reports = CommandReports(
        database=database,
        wake=wake_lane,
        redactor=redactor,
        events=events,
        after_s=timing.report_after_s,
        unpin=background.pin,
    )
    if folders_of_chats(settings):
        context = settings.context
        agent.projects.shape = TreeLimits(context.max_tree_depth, context.max_files_per_dir)
    command_reader = CommandReader(agent, access)
    committer = TurnCommitter(
        database=database,
        agent=agent,
        renderer=renderer,
        sender=sender,
        subagents=subagents,
        background=background,
        jobs=jobs,
        on_answer=speech.consider,
    )
    requests = TurnRequests(
        database=database,
        agent=agent,
        permissions=permissions,
        subagents=subagents,
        compactions=compactions,
        reports=reports,
        jobs=jobs,
        editors=editors,
        similarity=similarity_of(settings, agent, database),
    )
    turns = TurnRunner(
        agent=agent,
        contributors=[
            *([ReceivedFiles(received)] if received is not None else []),
            AnswerStyle(partial(find_style, resources.home)),
            WorkspaceTaint(agent),
            MessageTaint(database, permissions),
            BackgroundFacts(agent),
            ServerQuoteReader(agent, permissions),
            SkillCalls(agent, permissions),
            ProjectNews(agent),
            MemoryReminder(agent),
        ],
        stores=TurnStores(
            database=database,
            agent=agent,
            permissions=permissions,
            windows=windows,
            isolation=isolation,
            committer=committer,
            is_command=command_reader.is_command,
        ),
        requests=requests,
        screens=TurnScreens(database=database, renderer=renderer, events=events),
        subagents=subagents,
        usage=usage,
        compactions=compactions,
    )
    supervisor = ChannelSupervisor(channels)
    status = RuntimeStatus(
        models=lambda: agent.models,
        workspace=settings.agent.workspace,
        channels=channels,
        supervisor=supervisor,
        started_at=time.monotonic(),
        sandbox=resources.security.sandbox,
        exec_hosts=settings.security.exec_hosts if confined else (),
        language_servers=lambda: agent.code.status() if agent.code is not None else (),
    )
    codes = PairingCodes(access, resources.on_people_changed)
    people = PeopleDirectory(
        database=database,
        codes=codes,
        languages=languages,
        chat_settings=access.chat_settings,
        on_changed=resources.on_people_changed,
    )
    pairing = PairingService(access=access, codes=codes, renderer=renderer, languages=languages)
    command_services = CommandServices(
        home=resources.home,
        agent=agent,
        database=database,
        access=access,
        pairing=pairing,
        permissions=permissions,
        status=status.for_chat,
        default_mode=resources.security.roles.default_mode,
        compact=compactions.compact,
        renderer=renderer,
        languages=languages,
        jobs=jobs,
    )
    audit = resources.security.audit
    audit_log = audit if isinstance(audit, AuditLog) else None
    audit_relay = AuditRelay(database, audit_log, resources.home.audit_pending)
    ingestor = Ingestor(
        database=database,
        access=access,
        pairing=pairing,
        approvals=approval_service,
        membership=membership,
        audit_relay=audit_relay,
        renderer=renderer,
        languages=languages,
        read_command=command_reader.read,
        on_people_changed=resources.on_people_changed,
    )
    commands = CommandRunner(
        database=database,
        commands=CommandDispatcher(command_services, command_reader),
        renderer=renderer,
        sender=sender,
        pairing=pairing,
        audit_relay=audit_relay,
    )
    bus = MessageBus(
        database=database,
        ingestor=ingestor,
        commands=commands,
        turns=turns,
        isolation=isolation,
        subagents=subagents,
        approvals=approvals,
        renderer=renderer,
        sender=sender,
        languages=languages,
        events=events,
        concurrent_turns=concurrent_turns,
        link=link,
    )
    timer = JobTimer(
        database=database,
        jobs=jobs,
        bus=bus,
        sender=sender,
        clock=timing.job_clock,
        wait=timing.job_wait,
    )
    downloader = MediaDownloader(
        database=database,
        renderer=renderer,
        sender=sender,
        languages=languages,
        inboxes=permissions,
        wake=bus.wake,
        media=settings.media,
        transcribe=Transcriber(settings.transcription).transcribe,
        shared=received,
    )

    def user_data() -> "UserDataService":
        """Create the service, which is needed only a few times in an installation's life."""
        from gateway.ops.user_data import UserDataService

        return UserDataService(
            database=database,
            home=resources.home,
            workspace=settings.agent.workspace,
            access=access,
            forget=windows.evict,
            reload_people=people.reload,
            flush_audit=audit_relay.flush,
            files=files,
            channels=(*CHANNELS, *settings.python_plugins),
        )

    handover = Handover(database=database, bus=bus, events=events) if hands_over else None
    reload_targets = ReloadTargets(
        agent=agent,
        policies=resources.security.roles,
        access=access,
        usage=usage,
        sender=sender,
        renderer=renderer,
        languages=languages,
        approvals=approval_service,
        channels=channels,
        redactor=redactor,
        bus=bus,
    )
    reloader = None
    if config is not None:
        reloader = ConfigReloader(
            targets=reload_targets,
            database=database,
            home=resources.home,
            config=config,
            settings=settings,
        )
    screens = ScreenData(
        settings=settings,
        home=resources.home,
        database=database,
        agent=agent,
        access=access,
        policies=resources.security.roles,
        redactor=redactor,
        sources=config.sources if config is not None else None,
        reloader=reloader,
        audit=resources.security.audit,
    )
    terminals = screens.terminals()
    upload_bytes = settings.media.max_file_mb * 2**20
    service_context = ServiceContext(
        agent=agent,
        approvals=approvals,
        audit_relay=audit_relay,
        background=background,
        bus=bus,
        console_reservations=ConsoleReservations(),
        database=database,
        default_mode=resources.security.roles.default_mode,
        editors=editors,
        events=events,
        feed=ProjectFeed(agent, events),
        handover=handover,
        jobs=jobs,
        languages=languages,
        model_calls=ModelCaller(agent, database, usage),
        owner_audit=OwnerAudit(audit),
        pairing=pairing,
        plugin_fetches=BoundedSemaphore(MAX_FETCHES),
        reloader=reloader,
        renderer=renderer,
        screens=screens,
        sender=sender,
        sent_files=SentFiles(database, screens.files),
        sessions=SessionService(
            database=database, wake=bus.wake, publish=events.publish, background=background
        ),
        status=status,
        terminals=terminals,
        turn_log=usage.turns,
        uploads=Uploads(lambda: agent.workspace.folder, upload_bytes, shared=received),
        user_data=user_data,
        workers=resources.workers,
    )
    return Container(
        access=access,
        approvals=approvals,
        audit_relay=audit_relay,
        background=background,
        bus=bus,
        codes=codes,
        compactions=compactions,
        downloader=downloader,
        handover=handover,
        ingestor=ingestor,
        jobs=jobs,
        languages=languages,
        people=people,
        reloader=reloader,
        renderer=renderer,
        reports=reports,
        sender=sender,
        service=local_service(service_context),
        speech=speech,
        subagents=subagents,
        supervisor=supervisor,
        terminals=terminals,
        timer=timer,
        turn_log=usage.turns,
        turns=turns,
        user_data=user_data,
    )
