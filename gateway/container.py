"""The parts of a running gateway, made of what is open already and put together."""

import time
from collections.abc import Callable

from agent.agent import Agent
from agent.records import frozen
from agent.security.redaction import Redactor
from gateway.access.approval_coordinator import Approvals
from gateway.access.approvals import Clerk
from gateway.access.control import Access, sole_owner
from gateway.access.pairing_service import Door
from gateway.access.roles import Policies
from gateway.bus.bus import MessageBus
from gateway.bus.ingest import Intake
from gateway.channels.base import Channel
from gateway.channels.chat_settings import Places
from gateway.channels.registry import allowed_senders
from gateway.channels.supervisor import Reception
from gateway.commands.dispatcher import Commands, Office
from gateway.config import Settings
from gateway.control.local_service import Desk
from gateway.control.runtime_status import Facts
from gateway.core.event_hub import Watchers
from gateway.delivery.sender import Delivery
from gateway.delivery.user_language import Languages
from gateway.media.downloader import Porter
from gateway.media.transcription import Transcriber
from gateway.ops.adjust import Adjustable
from gateway.ops.audit.log import AuditLog
from gateway.ops.audit.relay import Notes
from gateway.scheduler.timer import Scheduler
from gateway.store.sqlite.engine import Database
from gateway.turns.compaction import Compactions
from gateway.turns.permissions import Rules
from gateway.turns.runner import Turns
from gateway.turns.usage_limits import say_what_cannot_hold
from gateway.turns.usage_meter import Spending

# By name and account.
Channels = dict[tuple[str, str], Channel]


@frozen
class App:
    """The running parts that others speak to; `forget` drops what is in memory of a session."""

    desk: Desk
    bus: MessageBus
    delivery: Delivery
    reception: Reception
    compactions: Compactions
    adjustable: Adjustable
    database: Database
    porter: Porter
    forget: Callable[[str], None]
    scheduler: Scheduler


@frozen
class Safety:
    """Who decides, who records it, what may never be shown, in words what holds commands, and
    what is said of single chats."""

    policies: Policies
    audit: AuditLog
    redactor: Redactor
    sandbox: str
    places: Places


def assemble(
    settings: Settings,
    database: Database,
    agent: Agent,
    watchers: Watchers,
    ways: Channels,
    safety: Safety,
) -> App:
    """Nothing runs yet and nothing is awaited."""
    owner = sole_owner(settings.access.owner, settings.telegram.allow_from)
    allow = {key: allowed_senders(settings, key) for key in ways}
    access = Access(owner, allow, settings.access.roles, places=safety.places)
    languages = Languages(settings.agent.language)
    delivery = Delivery(database, ways, redactor=safety.redactor, languages=languages)
    clerk = Clerk(delivery, access, expires_s=settings.security.approval_timeout_s)
    approvals = Approvals(database, delivery, watchers, clerk)
    held = agent.settings.tools.sandbox
    confined = held is not None and held.confines
    rules = Rules(
        access,
        approvals,
        settings.agent.workspace,
        safety.policies,
        confined,
        audit=safety.audit,
        schedule=settings.schedule,
    )
    spending = Spending(
        database, delivery, access, settings.limits, errand_usd=settings.subagents.max_cost_usd
    )
    say_what_cannot_hold(settings.limits, agent.models)
    work = Turns(database, agent, delivery, watchers, rules, spending)
    reception = Reception(ways)
    facts = Facts(
        models=lambda: agent.models,
        workspace=settings.agent.workspace,
        ways=ways,
        reception=reception,
        began=time.monotonic(),
        sandbox=safety.sandbox,
        exec_hosts=settings.security.exec_hosts if confined else (),
    )
    door = Door(access, delivery.render, languages)
    office = Office(
        agent=agent,
        database=database,
        histories=work.histories,
        door=door,
        facts=facts.for_chat,
        first_mode=safety.policies.first_mode,
        compact=work.compactions.compact,
        speaking=work.speaking,
        rules=rules,
        languages=languages,
        timetable=work.timetable,
        first_trace=delivery.trace,
    )
    intake = Intake(database, door, delivery, clerk, Notes(database, safety.audit))
    bus = MessageBus(database, intake, Commands(office), work, approvals)
    return App(
        desk=Desk(database, bus, watchers, approvals, work, facts),
        bus=bus,
        delivery=delivery,
        reception=reception,
        compactions=work.compactions,
        adjustable=Adjustable(
            agent=agent,
            policies=safety.policies,
            access=access,
            spending=spending,
            delivery=delivery,
            clerk=clerk,
            ways=ways,
            redactor=safety.redactor,
            bus=bus,
        ),
        database=database,
        porter=Porter(
            database,
            delivery,
            rules,
            media=settings.media,
            hears=Transcriber(settings.transcription).hear,
        ),
        forget=work.histories.forget,
        scheduler=Scheduler(database, work.timetable, bus, delivery),
    )
