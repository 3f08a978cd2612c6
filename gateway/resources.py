"""Open resources from which the parts of a Kore are built."""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from agent.agent import Agent
from agent.records import frozen
from gateway.access.wiring import SecurityContext
from gateway.bus.link import ProcessLink, SoleProcess
from gateway.channels.base import Channel
from gateway.core.event_hub import EventHub
from gateway.delivery.outbox_reader import Wait
from gateway.delivery.sender import wait_for
from gateway.runtime.paths import DataDir
from gateway.sessions.skill_offer import MIN_DURATION_S
from gateway.store.port import Store
from gateway.turns.command_reports import ReportLimits
from gateway.turns.isolation import NEWCOMERS_WAIT_S
from gateway.turns.usage.reservations import MemoryReservations, Reservations

if TYPE_CHECKING:
    from gateway.store.files.file_store import SharedFiles

# By name and account.
Channels = dict[tuple[str, str], Channel]


WorkersStatus = Callable[[], Awaitable[Mapping[str, Any] | None]]


async def no_workers() -> None:
    """Report no workers, because this process runs all turns itself."""


@frozen
class Resources:
    """Resources that are open when the parts are built; the caller closes them.

    `link` is the connection to the other processes, if several run the turns of one Kore.
    `reservations` makes reservations of spending, which are stored if several processes call
    models. `on_people_changed` is called after each commit that changes data of `PeopleDirectory`.
    `workers` returns the status of the processes that run turns for this one, and None without any.
    """

    home: DataDir
    database: Store
    agent: Agent
    events: EventHub
    channels: Channels
    security: SecurityContext
    files: "SharedFiles | None" = None
    link: ProcessLink = field(default_factory=SoleProcess)
    reservations: Callable[[Store], Reservations] = MemoryReservations
    on_people_changed: Callable[[], None] = lambda: None
    workers: WorkersStatus = no_workers


@frozen
class Timing:
    """Clocks and waits of the parts; tests use their own clocks."""

    sender_clock: Callable[[], float] | None = None
    sender_wait: Wait = wait_for
    usage_clock: Callable[[], float] = time.time
    job_clock: Callable[[], float] = time.time
    job_wait: Wait = wait_for
    reports: ReportLimits = ReportLimits()
    newcomers_wait_s: float = NEWCOMERS_WAIT_S
    skill_offer_after_s: float = MIN_DURATION_S
