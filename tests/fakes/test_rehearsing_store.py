"""The test store exposes a function that changes memory in its transaction."""

from pathlib import Path

import pytest

from gateway.store.port import Transaction
from tests.fakes.rehearsing_store import RehearsingStore

ADD = "INSERT INTO cursor (channel, account, name, value, seen_at) VALUES (?, '', '', '', 0)"
ALL = "SELECT channel FROM cursor"


async def test_only_the_second_run_is_stored_and_runs_callbacks(tmp_path: Path) -> None:
    store = RehearsingStore.open(tmp_path / "kore.db")
    runs: list[int] = []
    acted: list[int] = []

    def work(tx: Transaction) -> int:
        runs.append(len(runs))
        number = runs[-1]
        tx.run(ADD, (str(number),))
        tx.after_commit(lambda: acted.append(number))
        return number

    assert await store.transact(work) == 1
    assert (runs, acted) == ([0, 1], [1])
    assert await store.transact(lambda tx: tx.all(ALL)) == [("1",)]
    await store.close()


async def test_failed_transaction_raises_and_stores_nothing(tmp_path: Path) -> None:
    store = RehearsingStore.open(tmp_path / "kore.db")

    def work(tx: Transaction) -> None:
        tx.run(ADD, ("0",))
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await store.transact(work)
    assert await store.transact(lambda tx: tx.all(ALL)) == []
    await store.close()
