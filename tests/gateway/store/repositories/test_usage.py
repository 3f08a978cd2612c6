"""Reservations of processes that have ended."""

from gateway.store.port import Transaction
from gateway.store.repositories import usage
from gateway.store.repositories.execution import turns
from gateway.store.repositories.usage import Payer
from tests.gateway import stored
from tests.gateway.databases import OpenStore


def reserve(tx: Transaction, worker: int | None, state: str) -> int:
    """Reserve for a turn of a worker, or of the owner (None), and return the turn."""
    turn = turns.add_model_call(tx, "cli:local:x", 1.0)
    changes = {"worker": worker, "state": state, "lane": f"cli:local:{turn}"}
    stored.change(tx, "turn", changes, id=turn)
    usage.put_reservation(tx, Payer(turn, "s", "l", "c", "cli:0", turn), 5)
    return turn


async def test_ended_process_reserves_nothing(database: OpenStore) -> None:
    transact = database.transact
    of_owner = await transact(reserve, None, "running")
    # A background summary continues after its turn has ended.
    for state in ("running", "done"):
        await transact(reserve, 1, state)
    of_other = await transact(reserve, 2, "running")

    async def turns_that_reserve() -> set[int]:
        return {turn for (turn,) in await transact(stored.read, "usage_reservation", "by_turn")}

    await transact(usage.forget_reservations, 1)
    assert await turns_that_reserve() == {of_owner, of_other}
    await transact(usage.forget_reservations, None)
    assert await turns_that_reserve() == {of_other}
