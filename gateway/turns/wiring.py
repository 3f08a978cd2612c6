"""Wiring of the parts that run turns."""

from collections.abc import Callable
from functools import partial

from agent.agent import Agent
from agent.records import frozen
from agent.run.contributors import (
    BackgroundFacts,
    MemoryReminder,
    PlanModeNotes,
    ProjectNews,
    WorkspaceTaint,
)
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.access.wiring import SecurityContext
from gateway.config import Settings
from gateway.core.event_hub import EventHub
from gateway.core.messages import InboundMessage
from gateway.delivery.wiring import Delivery
from gateway.media.wiring import MediaParts
from gateway.runtime.paths import DataDir
from gateway.sessions.wiring import Sessions
from gateway.store.port import Store
from gateway.turns.added_folders import FolderNews
from gateway.turns.agents.styles import find_style
from gateway.turns.agents.subagents import SubagentCoordinator
from gateway.turns.command_reports import CommandReports, ReportLimits
from gateway.turns.commit import TurnCommitter
from gateway.turns.compaction import CompactionService
from gateway.turns.contributors import (
    AnswerStyle,
    MessageTaint,
    ReceivedFiles,
    ServerQuoteReader,
    SkillCalls,
)
from gateway.turns.goals import GoalService
from gateway.turns.isolation import Isolation
from gateway.turns.job_hooks import JobHooks
from gateway.turns.permissions import TurnPermissions
from gateway.turns.requests import TurnRequests
from gateway.turns.runner import TurnRunner
from gateway.turns.screens import TurnScreens
from gateway.turns.store import TurnStores
from gateway.turns.usage.limits import warn_unenforceable
from gateway.turns.usage.meter import StoreUsageMeter
from gateway.turns.usage.reservations import Reservations


@frozen
class Turns:
    """Parts that run turns; `reports` handles the reports of background commands."""

    compactions: CompactionService
    goals: GoalService
    isolation: Isolation
    reports: CommandReports
    runner: TurnRunner
    subagents: SubagentCoordinator
    usage: StoreUsageMeter


def wire_permissions(
    settings: Settings, security: SecurityContext, approvals: ApprovalCoordinator, agent: Agent
) -> TurnPermissions:
    """Build the permissions of turns, which media and jobs need too."""
    sandbox = agent.settings.tools.sandbox
    return TurnPermissions(
        access=security.access,
        approvals=approvals,
        workspace=settings.agent.workspace,
        policies=security.roles,
        confined=sandbox is not None and sandbox.confines,
        audit=security.audit,
        full_access=security.full_access,
        default_agent=settings.agent.default_agent,
    )


def wire_usage(  # noqa: PLR0913 - the inputs by name
    *,
    settings: Settings,
    security: SecurityContext,
    agent: Agent,
    database: Store,
    delivery: Delivery,
    reservations: Reservations,
    clock: Callable[[], float],
) -> StoreUsageMeter:
    """Build the meter of model calls, and warn about limits that it cannot enforce."""
    warn_unenforceable(settings.limits, agent.models)
    return StoreUsageMeter(
        database=database,
        renderer=delivery.renderer,
        sender=delivery.sender,
        languages=delivery.languages,
        access=security.access,
        reservations=reservations,
        limits=settings.limits,
        clock=clock,
        subagent_max_cost_usd=settings.subagents.max_cost_usd,
    )


def wire_turns(  # noqa: PLR0913 - the inputs by name
    *,
    settings: Settings,
    home: DataDir,
    agent: Agent,
    database: Store,
    events: EventHub,
    delivery: Delivery,
    sessions: Sessions,
    media: MediaParts,
    permissions: TurnPermissions,
    usage: StoreUsageMeter,
    jobs: JobHooks,
    wake: Callable[[str], None],
    is_command: Callable[[InboundMessage], bool],
    needs_own_turn: Callable[[InboundMessage], bool],
    is_shared: bool,
    report_limits: ReportLimits,
    newcomers_wait_s: float,
    skill_offer_after_s: float,
) -> Turns:
    """Build the parts. `is_shared`: other processes use the same database."""
    renderer, sender = delivery.renderer, delivery.sender
    isolation = Isolation(newcomers_wait_s)
    compactions = CompactionService(
        database=database,
        agent=agent,
        windows=sessions.windows,
        renderer=renderer,
        sender=sender,
        events=events,
        usage=usage,
        audience=permissions.audience,
    )
    subagents = SubagentCoordinator(
        database=database,
        agent=agent,
        permissions=permissions,
        renderer=renderer,
        sender=sender,
        wake=wake,
        is_shared=is_shared,
    )
    goals = GoalService(
        database=database,
        agent=agent,
        permissions=permissions,
        renderer=renderer,
        sender=sender,
        events=events,
        usage=usage,
        is_command=is_command,
        wake=wake,
        settings=settings,
    )
    reports = CommandReports(
        database=database,
        wake=wake,
        redactor=renderer.redactor,
        events=events,
        limits=report_limits,
        unpin=sessions.background.pin,
    )
    committer = TurnCommitter(
        database=database,
        agent=agent,
        renderer=renderer,
        sender=sender,
        subagents=subagents,
        background=sessions.background,
        jobs=jobs,
        goals=goals,
        skill_offer_after_s=skill_offer_after_s,
        on_answer=media.speech.consider,
    )
    runner = TurnRunner(
        agent=agent,
        contributors=[
            *([ReceivedFiles(media.shared)] if media.shared is not None else []),
            FolderNews(database),
            AnswerStyle(partial(find_style, home)),
            WorkspaceTaint(agent),
            MessageTaint(database, permissions),
            BackgroundFacts(agent),
            ServerQuoteReader(agent, permissions),
            SkillCalls(agent, permissions),
            ProjectNews(agent),
            PlanModeNotes(),
            MemoryReminder(agent),
        ],
        stores=TurnStores(
            database=database,
            agent=agent,
            permissions=permissions,
            windows=sessions.windows,
            isolation=isolation,
            committer=committer,
            needs_own_turn=needs_own_turn,
        ),
        requests=TurnRequests(
            database=database,
            agent=agent,
            permissions=permissions,
            subagents=subagents,
            compactions=compactions,
            reports=reports,
            jobs=jobs,
            editors=sessions.editors,
            similarity=sessions.similarity,
        ),
        screens=TurnScreens(database=database, renderer=renderer, events=events),
        subagents=subagents,
        usage=usage,
        compactions=compactions,
    )
    return Turns(compactions, goals, isolation, reports, runner, subagents, usage)
