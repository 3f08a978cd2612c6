"""Wiring of the scheduler."""

from collections.abc import Callable

from agent.records import frozen
from gateway.access.wiring import SecurityContext
from gateway.config import Settings
from gateway.delivery.outbox_reader import Wait
from gateway.delivery.wiring import Delivery
from gateway.scheduler.job_context import FiredJobs, JobContext
from gateway.scheduler.service import JobService
from gateway.scheduler.timer import JobTimer
from gateway.store.port import Store
from gateway.turns.permissions import TurnPermissions


@frozen
class Scheduler:
    """Jobs and the timer that starts them."""

    jobs: JobService
    timer: JobTimer


def wire_scheduler(  # noqa: PLR0913 - the inputs by name
    *,
    settings: Settings,
    security: SecurityContext,
    permissions: TurnPermissions,
    database: Store,
    delivery: Delivery,
    wake: Callable[[str], None],
    clock: Callable[[], float],
    wait: Wait,
) -> Scheduler:
    # A circular dependency: jobs that people start manually wake the timer's lanes.
    def wake_fired(fired: FiredJobs) -> None:
        timer.wake(fired)

    jobs = JobService(
        database=database,
        context=JobContext(
            access=security.access,
            roles=security.roles,
            permissions=permissions,
            workspace=settings.agent.workspace,
            schedule=settings.schedule,
            renderer=delivery.renderer,
            languages=delivery.languages,
        ),
        on_fired=wake_fired,
        is_held=security.full_access is not None,
    )
    timer = JobTimer(
        database=database, jobs=jobs, wake=wake, sender=delivery.sender, clock=clock, wait=wait
    )
    return Scheduler(jobs, timer)
