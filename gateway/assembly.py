"""The parts of a running gateway, made of what is open already and put together."""

import time
from collections.abc import Callable

from agent.agent import Agent
from agent.frozen import frozen
from agent.security.redaction import Redactor
from gateway.access import Access, sole_owner
from gateway.adjust import Adjustable
from gateway.approvals import Approvals
from gateway.audit.log import AuditLog
from gateway.audit.notes import Notes
from gateway.bus import MessageBus
from gateway.caps import say_what_cannot_hold
from gateway.channels.base import Channel
from gateway.clerk import Clerk
from gateway.commands.call import Commands, Office
from gateway.compaction import Compactions
from gateway.delivery import Delivery
from gateway.desk import Desk
from gateway.door import Door
from gateway.facts import Facts
from gateway.intake import Intake
from gateway.languages import Languages
from gateway.places import Places
from gateway.policies import Policies
from gateway.porter import Porter
from gateway.reception import Reception
from gateway.roster import allowed_senders
from gateway.rules import Rules
from gateway.scheduler import Scheduler
from gateway.settings import Settings
from gateway.spending import Spending
from gateway.store.database import Database
from gateway.transcription import Transcriber
from gateway.turn import Turns
from gateway.watchers import Watchers

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
