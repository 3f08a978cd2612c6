"""Health pages of a worker for supervisors (see `gateway.control.health`)."""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from gateway.control.health import (
    ALIVE,
    Page,
    Pages,
    counter_lines,
    gauge_lines,
    health_page,
    metrics_page,
)
from gateway.control.runtime_status import resident_bytes
from gateway.store.port import Store
from gateway.turns.usage.turn_log import failure_facts, metric_lines
from gateway.workers.worker_loop import WorkerLoop


def worker_pages(
    loop: WorkerLoop, database: Store, turns: Callable[[], Mapping[str, Any]]
) -> Pages:
    """Return the pages of a worker.

    A worker is healthy while it has its lease, reaches the database and is not draining; it is
    ready when a gateway also leaves turns to it.
    """

    async def answer(path: str) -> Page | None:
        match path:
            case "/livez":
                return ALIVE
            case "/healthz":
                return _page(_broken(loop, database))
            case "/healthz?deep":
                failing = failure_facts([turns()], "")["failing_model"] is not None
                return _page(_broken(loop, database) + (["model"] if failing else []))
            case "/readyz":
                waiting = ["gateway"] if loop.state == "waiting" else []
                return _page(_broken(loop, database) + waiting)
            case "/metrics":
                return metrics_page(chain(_lines(loop, database), metric_lines({"": turns()})))
        return None

    return answer


def _broken(loop: WorkerLoop, database: Store) -> list[str]:
    states = {
        "draining": loop.state == "draining",
        "lease": not database.is_held(),
        "database": not loop.reaches_database,
    }
    return [name for name, is_so in states.items() if is_so]


def _page(broken: list[str]) -> Page:
    return health_page("degraded" if broken else "ok", broken)


def _lines(loop: WorkerLoop, database: Store) -> Iterator[str]:
    facts = loop.facts()
    yield from counter_lines({"turns_handled": facts["handled"], "hints_dropped": facts["dropped"]})
    yield from gauge_lines(
        {
            "lanes_busy": facts["lanes"],
            "worker_room": facts["room"],
            "worker_lease_held": int(database.is_held()),
            "worker_database_reached": int(loop.reaches_database),
            "worker_takes_turns": int(loop.state == "taking turns"),
            "resident_memory_bytes": resident_bytes(),
        }
    )
