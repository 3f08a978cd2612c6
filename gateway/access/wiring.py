"""Wiring of the parts that decide who may write and what may run."""

from collections.abc import Callable

from agent.records import frozen
from agent.security.audit import AuditSink
from agent.security.redaction import Redactor
from gateway.access.approval_coordinator import ApprovalCoordinator
from gateway.access.approvals import ApprovalService
from gateway.access.chat_membership import ChatMembership
from gateway.access.control import AccessControl
from gateway.access.pairing import PairingCodes
from gateway.access.pairing_service import PairingService
from gateway.access.people import PeopleDirectory
from gateway.access.roles import RoleRegistry
from gateway.core.event_hub import EventHub
from gateway.delivery.wiring import Delivery
from gateway.store.port import Store


@frozen
class SecurityContext:
    """Access control, roles, audit log, redaction and the sandbox's description.

    `full_access` is the token of a terminal that granted full access.
    """

    access: AccessControl
    roles: RoleRegistry
    audit: AuditSink
    redactor: Redactor
    sandbox: str
    full_access: str | None = None


@frozen
class Access:
    """Approvals, and the people who may write.

    `approval_service` runs inside transactions, `approvals` outside of them.
    """

    approval_service: ApprovalService
    approvals: ApprovalCoordinator
    codes: PairingCodes
    membership: ChatMembership
    pairing: PairingService
    people: PeopleDirectory


def wire_access(  # noqa: PLR0913 - the inputs by name
    *,
    database: Store,
    control: AccessControl,
    delivery: Delivery,
    events: EventHub,
    approval_timeout_s: float | None,
    wake: Callable[[str], None],
    announce_question: Callable[[], None],
    announce_settlement: Callable[[str, str], None],
    on_people_changed: Callable[[], None],
) -> Access:
    languages, renderer = delivery.languages, delivery.renderer
    approval_service = ApprovalService(
        renderer=renderer, languages=languages, access=control, expires_s=approval_timeout_s
    )
    codes = PairingCodes(control, on_people_changed)
    return Access(
        approval_service=approval_service,
        approvals=ApprovalCoordinator(
            database=database,
            service=approval_service,
            renderer=renderer,
            sender=delivery.sender,
            events=events,
            wake=wake,
            announce_question=announce_question,
            announce_settlement=announce_settlement,
        ),
        codes=codes,
        membership=ChatMembership(access=control, renderer=renderer, languages=languages),
        pairing=PairingService(access=control, codes=codes, renderer=renderer, languages=languages),
        people=PeopleDirectory(
            database=database,
            codes=codes,
            languages=languages,
            chat_settings=control.chat_settings,
            on_changed=on_people_changed,
        ),
    )
