"""Wiring of the bus: acceptance of messages, and the lanes that process them."""

from collections.abc import Callable

from agent.records import frozen
from gateway.access.control import AccessControl
from gateway.access.wiring import Access
from gateway.bus.bus import MessageBus
from gateway.bus.command_runner import CommandRunner, Commands
from gateway.bus.ingest import AuditNotes, Ingestor
from gateway.bus.link import ProcessLink
from gateway.core.event_hub import EventHub
from gateway.delivery.wiring import Delivery
from gateway.store.port import Store
from gateway.turns.wiring import Turns


@frozen
class BusParts:
    """Bus, and the part that stores accepted messages."""

    bus: MessageBus
    ingestor: Ingestor


def wire_bus(  # noqa: PLR0913 - the inputs by name
    *,
    database: Store,
    control: AccessControl,
    events: EventHub,
    delivery: Delivery,
    access: Access,
    turns: Turns,
    audit_notes: AuditNotes,
    commands: Commands,
    link: ProcessLink,
    concurrent_turns: int,
    on_people_changed: Callable[[], None],
) -> BusParts:
    languages, renderer, sender = delivery.languages, delivery.renderer, delivery.sender
    ingestor = Ingestor(
        database=database,
        access=control,
        pairing=access.pairing,
        approvals=access.approval_service,
        membership=access.membership,
        audit_relay=audit_notes,
        renderer=renderer,
        languages=languages,
        goals=turns.goals,
        read_command=commands.read,
        on_people_changed=on_people_changed,
    )
    bus = MessageBus(
        database=database,
        ingestor=ingestor,
        commands=CommandRunner(
            database=database,
            commands=commands,
            renderer=renderer,
            sender=sender,
            pairing=access.pairing,
            audit_relay=audit_notes,
        ),
        turns=turns.runner,
        goals=turns.goals,
        isolation=turns.isolation,
        subagents=turns.subagents,
        approvals=access.approvals,
        renderer=renderer,
        sender=sender,
        languages=languages,
        events=events,
        concurrent_turns=concurrent_turns,
        link=link,
    )
    return BusParts(bus, ingestor)
