"""Reservations of running calls, which count towards the limits of all other calls, in one process
and in several.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from agent.errors import LimitReached
from agent.providers.usage import Charge
from agent.types import Usage
from gateway.config.sections import LimitsSection
from gateway.store.port import Store
from gateway.turns.usage.meter import StoreUsageMeter
from gateway.turns.usage.reservations import MemoryReservations, StoredReservations
from tests import fork_server, postgres_server
from tests.gateway.databases import open_database
from tests.gateway.stored import count, read
from tests.gateway.turns.usage.spender import CENT, spend, turn_meter, usage_meter

KINDS = {"memory": MemoryReservations, "stored": StoredReservations}
DOLLAR = Charge("v/m", Usage(1, 1), 1_000_000_000)


def choose_engine(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KORE_TEST_STORE", engine)


@pytest.fixture(params=["memory sqlite", "stored sqlite", "stored postgres"])
async def usage(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[StoreUsageMeter]:
    kind, engine = request.param.split()
    choose_engine(engine, monkeypatch)
    database = open_database(tmp_path / "kore.db")
    yield usage_meter(database, KINDS[kind](database))
    await database.close()


async def test_concurrent_calls_do_not_exceed_the_limit(usage: StoreUsageMeter) -> None:
    assert await spend(usage, 12, 12) == (100, 1)


class LateTotals:
    """Store that runs `action` between reading the totals and returning them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.action: Callable[[], Awaitable[object]] | None = None

    async def transact(self, function: Callable[..., Any], *args: Any) -> Any:
        result = await self._store.transact(function, *args)
        action, self.action = self.action, None
        if action is not None:
            await action()
        return result


async def test_call_charged_while_another_reads_the_totals_is_counted(tmp_path: Path) -> None:
    database = open_database(tmp_path / "kore.db")
    late = LateTotals(database)
    usage = usage_meter(database, MemoryReservations(cast(Store, late)))
    (charged, _), (other, _) = await turn_meter(usage), await turn_meter(usage)
    await charged.before(DOLLAR)
    late.action = partial(charged.after, DOLLAR)
    with pytest.raises(LimitReached):
        await other.before(CENT)
    await database.close()


async def test_reservation_ends_with_the_charge(usage: StoreUsageMeter) -> None:
    (result, _), (other, _) = await turn_meter(usage), await turn_meter(usage)
    await result.before(DOLLAR)
    with pytest.raises(LimitReached):
        await other.before(CENT)
    await result.after(CENT)
    await other.before(CENT)


async def test_next_call_of_a_turn_replaces_its_reservation(usage: StoreUsageMeter) -> None:
    (result, _), (other, _) = await turn_meter(usage), await turn_meter(usage)
    await result.before(DOLLAR)
    await result.before(CENT)
    await other.before(CENT)
    with pytest.raises(LimitReached):
        await result.before(DOLLAR)
    # A rejected call leaves no reservation either.
    await other.before(DOLLAR)


async def test_interrupted_call_leaves_no_reservation(usage: StoreUsageMeter) -> None:
    (result, payer), (other, _) = await turn_meter(usage), await turn_meter(usage)
    await result.before(DOLLAR)
    await usage.reservations.release(payer.by)
    await usage.reservations.release(payer.by)
    await other.before(DOLLAR)


async def test_reservation_applies_only_to_its_own_chat(usage: StoreUsageMeter) -> None:
    usage.limits = LimitsSection(cost_per_session_usd=1.0)
    (result, _), (other, _) = await turn_meter(usage), await turn_meter(usage)
    await result.before(DOLLAR)
    await other.before(DOLLAR)


async def test_no_reservation_is_stored_without_a_cost_limit(usage: StoreUsageMeter) -> None:
    usage.limits = LimitsSection(tokens_per_turn=10)
    result, _ = await turn_meter(usage)
    await result.before(DOLLAR)
    assert await usage.database.transact(count, "usage_reservation") == 0


async def test_processes_share_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_engine("postgres", monkeypatch)
    database = open_database(tmp_path / "kore.db")
    address = postgres_server.database_of(tmp_path / "kore.db")
    process = await fork_server.start_talking(
        ["python", "-m", "tests.gateway.turns.usage.spender", address, "8", "12"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        stderr=2,
        limit=2**16,
    )
    assert await process.stdout.readline() == b"ready\n"
    process.stdin.write(b"go\n")
    usage = usage_meter(database, StoredReservations(database))
    (allowed, warned), output = await asyncio.gather(spend(usage, 8, 12), process.stdout.readline())
    assert await process.wait() == 0
    theirs, their_warnings = map(int, output.split())
    assert allowed > 0
    assert theirs > 0
    assert (allowed + theirs, warned + their_warnings) == (100, 1)
    rows: list[Any] = await database.transact(read, "usage", "cost_nusd")
    assert sum(cost_nusd for (cost_nusd,) in rows) == 1_000_000_000
    assert await database.transact(count, "usage_reservation") == 0
    await database.close()
