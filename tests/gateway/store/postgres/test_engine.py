"""Store on a real PostgreSQL server that is slow, unavailable, cut off or owned by another Kore."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from gateway.store.cipher import Cipher
from gateway.store.errors import StoreBusy, StoreError, StoreInUse, StoreTakenOver
from gateway.store.opening import open_store
from gateway.store.port import Store, Transaction
from gateway.store.postgres import ownership
from gateway.store.postgres.connection import connect
from gateway.store.postgres.engine import PostgresOptions, PostgresStore
from gateway.store.postgres.lease import ServerWatch
from gateway.store.repositories import preferences
from gateway.store.repositories.conversations import sessions
from tests import postgres_server
from tests.gateway.parts import wait_until
from tests.gateway.store.postgres.cutting_proxy import CuttingProxy, Moment, cutting_proxy
from tests.gateway.store.postgres.owners import open_now, silent
from tests.postgres_server import PostgresServer


@asynccontextmanager
async def opened(address: str, folder: Path, cipher: Cipher | None = None) -> AsyncIterator[Store]:
    store = open_store(address, folder, check=False, cipher=cipher)
    try:
        yield store
    finally:
        await store.close()


def count_up(tx: Transaction) -> int:
    """Increment a counter, which conflicts with all other increments."""
    (value,) = tx.first("SELECT value FROM meta WHERE name = 'count'") or ("0",)
    number = int(value) + 1
    tx.run(
        "INSERT INTO meta (name, value) VALUES ('count', ?)"
        " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (str(number),),
    )
    return number


async def test_conflicting_transactions_are_repeated(tmp_path: Path) -> None:
    async with opened(postgres_server.create_database(), tmp_path) as store:
        numbers = await asyncio.gather(*(store.transact(count_up) for _ in range(60)))
    assert sorted(numbers) == list(range(1, 61))


async def test_failed_transaction_has_no_effects(tmp_path: Path) -> None:
    actions: list[str] = []

    def work(tx: Transaction, fails: bool) -> None:
        count_up(tx)
        tx.after_commit(lambda: actions.append("stored"))
        if fails:
            raise ValueError("no")

    async with opened(postgres_server.create_database(), tmp_path) as store:
        with pytest.raises(ValueError, match="no"):
            await store.transact(work, True)
        assert actions == []
        await store.transact(work, False)
        assert actions == ["stored"]
        assert await store.transact(preferences.get_state, "count") == "1"
        with pytest.raises(StoreError, match="the database returned an error"):
            await store.transact(lambda tx: tx.run("UPDATE nowhere SET a = 1"))
        assert await store.transact(count_up) == 2


async def test_caught_database_error_still_fails_the_transaction(tmp_path: Path) -> None:
    """The server rolls such a transaction back, even if the error was caught."""

    def work(tx: Transaction) -> None:
        count_up(tx)
        with pytest.raises(Exception, match="nowhere"):
            tx.run("UPDATE nowhere SET a = 1")

    async with opened(postgres_server.create_database(), tmp_path) as store:
        with pytest.raises(StoreError, match="rolled back"):
            await store.transact(work)
        assert await store.transact(preferences.get_state, "count") is None


async def test_full_table_scan_is_not_jit_compiled(tmp_path: Path) -> None:
    """Compilation would cost more than the statement itself."""

    def explain(tx: Transaction) -> str:
        rows = tx.all("EXPLAIN ANALYZE SELECT name FROM pairing WHERE code_hash IS NOT NULL")
        return "\n".join(line for (line,) in rows)

    async with opened(postgres_server.create_database(), tmp_path) as store:
        plan = await store.transact(explain)
    assert "Seq Scan on pairing" in plan
    assert "JIT" not in plan


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[CuttingProxy]:
    with cutting_proxy(postgres_server.server().folder, tmp_path) as proxy:
        yield proxy


def through(proxy: CuttingProxy, address: str) -> str:
    database = address.partition("kore@/")[2].partition("?")[0]
    return proxy.address(database)


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_commit_with_a_lost_response_is_made_once(
    proxy: CuttingProxy, tmp_path: Path, moment: Moment
) -> None:
    address = postgres_server.create_database()
    actions: list[str] = []

    def work(tx: Transaction) -> int:
        tx.after_commit(lambda: actions.append("stored"))
        return count_up(tx)

    async with opened(through(proxy, address), tmp_path) as store:
        for number in range(1, 6):
            proxy.cut_at = moment
            assert await store.transact(work) == number
            assert proxy.cuts == number
        assert len(actions) == 5
        assert await store.transact(preferences.get_state, "count") == "5"


async def test_transactions_wait_for_an_unavailable_server(
    proxy: CuttingProxy, tmp_path: Path
) -> None:
    async with opened(through(proxy, postgres_server.create_database()), tmp_path) as store:
        await store.transact(count_up)
        proxy.is_down = True
        proxy.cut_all()
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(store.transact(count_up)) for _ in range(5)]
            await asyncio.wait(waiting, timeout=0.2)
            assert not any(task.done() for task in waiting)
            proxy.is_down = False
        assert sorted(task.result() for task in waiting) == [2, 3, 4, 5, 6]


async def test_close_ends_transactions_waiting_for_a_server(
    proxy: CuttingProxy, tmp_path: Path
) -> None:
    async with opened(through(proxy, postgres_server.create_database()), tmp_path) as store:
        proxy.is_down = True
        proxy.cut_all()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(refused(store))
            await asyncio.wait({waiting}, timeout=0.1)
            await store.close()


async def refused(store: Store) -> None:
    with pytest.raises(StoreBusy, match="cannot be reached"):
        await store.transact(count_up)


@pytest.fixture(scope="module")
def durable() -> Iterator[PostgresServer]:
    """Start a server that tests may kill."""
    with closing(PostgresServer(is_durable=True)) as server:
        yield server


async def test_killed_and_restarted_server_loses_nothing(
    durable: PostgresServer, tmp_path: Path
) -> None:
    async with opened(durable.create_database(), tmp_path) as store:
        done: list[int] = []

        async def count_for(times: int) -> None:
            for _ in range(times):
                done.append(await store.transact(count_up))

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(count_for(40)) for _ in range(3)]
            for at in (20, 60):
                await wait_until(lambda at=at: len(done) >= at)  # type: ignore[misc]
                await asyncio.to_thread(durable.kill)
                await asyncio.to_thread(durable.start)
        assert all(task.done() for task in tasks)
        assert sorted(done) == list(range(1, 121))
        assert await store.transact(preferences.get_state, "count") == "120"


async def test_transaction_lost_in_a_crash_is_run_again(
    durable: PostgresServer, tmp_path: Path
) -> None:
    """After a crash, the server reuses the number of a lost transaction."""
    address, runs = durable.create_database(), 0

    with cutting_proxy(durable.folder, tmp_path) as proxy:

        def work(tx: Transaction) -> int:
            nonlocal runs
            runs += 1
            if runs == 1:
                proxy.is_down, proxy.cut_at = True, "before"
            return count_up(tx)

        async with opened(through(proxy, address), tmp_path) as store:
            async with asyncio.TaskGroup() as group:
                counting = group.create_task(store.transact(work))
                await wait_until(lambda: proxy.cuts == 1)
                await asyncio.to_thread(durable.kill)
                await asyncio.to_thread(durable.start)
                with closing(connect(address)) as other:
                    for _ in range(20):
                        other.execute("SELECT pg_current_xact_id()")
                proxy.is_down = False
            assert counting.result() == 1
            assert await store.transact(preferences.get_state, "count") == "1"
            assert runs == 2


async def test_database_has_one_owner(tmp_path: Path) -> None:
    address = postgres_server.create_database()
    async with opened(address, tmp_path):
        with pytest.raises(StoreError, match=r"in use by Kore on .*process"):
            open_store(address, tmp_path, check=False, cipher=None)
    async with opened(address, tmp_path) as store:
        await store.transact(count_up)


async def test_displaced_owner_stores_nothing_more(proxy: CuttingProxy, tmp_path: Path) -> None:
    """Its network failed, so it has lost its lock without noticing."""
    address = postgres_server.create_database()
    async with opened(through(proxy, address), tmp_path) as cut_off:
        await cut_off.transact(count_up)
        proxy.is_down = True
        proxy.cut_all()
        async with opened(address, tmp_path) as successor:
            assert await successor.transact(count_up) == 2
            proxy.is_down = False
            with pytest.raises(StoreError, match="another Kore has taken over"):
                await cut_off.transact(count_up)
            assert await successor.transact(count_up) == 3


async def test_silent_owner_is_replaced_after_its_lease(tmp_path: Path) -> None:
    """Its process is stopped, but its lock and connections remain."""
    address = postgres_server.create_database()
    stopped = open_now(address, tmp_path, lease_s=3600)
    try:
        await stopped.transact(count_up)
        silent(address, 4.0)
        for lease_s, replaces in ((3.0, False), (60.0, True)):
            with pytest.raises(StoreInUse):
                open_now(address, tmp_path, lease_s=lease_s, replaces=replaces)
        successor = open_now(address, tmp_path, lease_s=3.0, replaces=True)
        try:
            assert await successor.transact(count_up) == 2
            with pytest.raises(StoreTakenOver):
                await stopped.transact(count_up)
            async with asyncio.timeout(30):
                await stopped.until_replaced()
            with pytest.raises(StoreInUse):
                open_now(address, tmp_path, lease_s=3.0, replaces=True)
        finally:
            await successor.close()
    finally:
        await stopped.close()


async def test_live_owner_keeps_its_lease(tmp_path: Path) -> None:
    address = postgres_server.create_database()
    store = open_now(address, tmp_path, lease_s=0.1)
    try:
        silent(address, 3600.0)
        with closing(connect(address)) as other:

            def age_s() -> float:
                query = "SELECT extract(epoch FROM clock_timestamp()) - seen_at FROM owner"
                (age,) = other.execute(query).fetchone() or (0,)
                return float(age)

            await wait_until(lambda: age_s() < 60)
        assert await store.transact(count_up) == 1
    finally:
        await store.close()


async def test_live_owner_is_not_replaced_after_a_server_outage(
    tmp_path: Path,
) -> None:
    address = postgres_server.create_database()
    store = open_now(address, tmp_path, lease_s=0.5)
    try:
        # As after an outage: the standby process is the first to see the server again.
        silent(address, 100.0)
        with pytest.raises(StoreInUse):
            open_now(address, tmp_path, lease_s=3.0, replaces=True)
        assert await store.transact(count_up) == 1
    finally:
        await store.close()


async def test_silent_owner_is_replaced_by_only_one_process(tmp_path: Path) -> None:
    address = postgres_server.create_database()
    stopped = open_now(address, tmp_path, lease_s=3600)
    try:
        silent(address, 100.0)

        connections = [connect(address) for _ in range(8)]
        for number, connection in enumerate(connections):
            # Connections of other processes have such names.
            connection.execute(f"SET application_name = 'kore {number}'".encode())

        def attempt(number: int) -> bool:
            try:
                ownership.lock_data(connections[number], "here", 3.0, ServerWatch(3.0))
            except StoreInUse:
                return False
            return True

        tries = await asyncio.gather(*(asyncio.to_thread(attempt, n) for n in range(8)))
        for connection in connections:
            connection.close()
    finally:
        await stopped.close()
    assert sum(tries) == 1


async def test_tables_in_use_are_not_upgraded(tmp_path: Path) -> None:
    address = postgres_server.create_database()
    async with opened(address, tmp_path):
        with closing(connect(address)) as connection:
            connection.execute("DELETE FROM migration WHERE number = 80")
            with pytest.raises(StoreInUse):
                open_now(address, tmp_path, replaces=True)
            query = "SELECT count(*) FROM migration WHERE number = 80"
            assert connection.execute(query).fetchone() == (0,)


async def test_transaction_begun_before_a_takeover_cannot_commit(
    tmp_path: Path,
) -> None:
    address = postgres_server.create_database()
    is_begun, goes_on = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(tx: Transaction) -> None:
        count_up(tx)
        loop.call_soon_threadsafe(is_begun.set)
        asyncio.run_coroutine_threadsafe(goes_on.wait(), loop).result()

    async with opened(address, tmp_path) as store, asyncio.TaskGroup() as group:
        task = group.create_task(refused_by_takeover(store, slow))
        await is_begun.wait()
        with closing(connect(address)) as other:
            # A successor does the same and reads the table, once the server has released the lock.
            other.execute("UPDATE owner SET epoch = epoch + 1, name = 'other'")
            assert other.execute("SELECT count(*) FROM meta WHERE name = 'count'").fetchone() == (
                0,
            )
            goes_on.set()
            await task
            assert other.execute("SELECT count(*) FROM meta WHERE name = 'count'").fetchone() == (
                0,
            )


async def refused_by_takeover(store: Store, work: Callable[[Transaction], None]) -> None:
    with pytest.raises(StoreError, match="another Kore has taken over"):
        await store.transact(work)


def test_other_key_is_rejected_and_changes_nothing(tmp_path: Path) -> None:
    async def store_one(address: str, cipher: Cipher | None) -> None:
        async with opened(address, tmp_path, cipher) as store:
            await store.transact(sessions.create_session, "chat:7", time.time())

    first, second = Cipher(bytes(32), "FIRST"), Cipher(bytes([1] * 32), "SECOND")
    sealed, plain = (postgres_server.create_database() for _ in range(2))
    asyncio.run(store_one(sealed, first))
    asyncio.run(store_one(plain, None))
    asyncio.run(store_one(sealed, first))
    for address, cipher, words in (
        (sealed, None, "is encrypted, but"),
        (sealed, second, "different key from the one in SECOND"),
        (plain, first, "is not encrypted, but"),
    ):
        with pytest.raises(StoreError, match=words):
            asyncio.run(store_one(address, cipher))


def test_foreign_or_newer_database_is_rejected(tmp_path: Path) -> None:
    def open_it(address: str) -> None:
        open_store(address, tmp_path, check=False, cipher=None)

    other, newer = (postgres_server.create_database() for _ in range(2))
    with closing(connect(other)) as connection:
        connection.execute("DROP TABLE migration")
    with pytest.raises(StoreError, match="tables of another program"):
        open_it(other)
    with closing(connect(newer)) as connection:
        connection.execute("INSERT INTO migration VALUES (9999, 0)")
    with pytest.raises(StoreError, match="created by a newer Kore"):
        open_it(newer)
    with pytest.raises(StoreError, match="cannot connect") as excinfo:
        open_it("postgresql://kore:hunter2@127.0.0.1:1/kore")
    assert "hunter2" not in str(excinfo.value)


async def test_zero_characters_and_long_texts_are_stored(tmp_path: Path) -> None:
    async with opened(postgres_server.create_database(), tmp_path) as store:

        def work(tx: Transaction) -> None:
            tx.run("INSERT INTO meta (name, value) VALUES ('odd', ?)", ("a\0b",))
            assert tx.one("SELECT value FROM meta WHERE name = ?", ("odd",)) == ("a\ufffdb",)
            tx.search.add([(1, f"{'x' * 3000} canary {' '.join(f'w{n}' for n in range(60_000))}")])
            for phrase, count in (("canary w0", 1), ("w16000 w16001", 1), ("w59999", 1)):
                matches, values = tx.search.matches([phrase])
                assert len(tx.all(matches, values)) == count, phrase

        await store.transact(work)


async def test_process_stopped_within_a_transaction_holds_no_lock(
    tmp_path: Path,
) -> None:
    """The server ends its connection; when the process continues, the transaction runs again."""
    address = postgres_server.create_database()
    options = PostgresOptions(idle_s=0.2)
    store = PostgresStore.open(address, tmp_path, write_copy=lambda tx, file: None, options=options)
    tries = 0
    has_locked, goes_on = threading.Event(), threading.Event()

    def work(tx: Transaction) -> int:
        nonlocal tries
        tries += 1
        number = count_up(tx)
        has_locked.set()
        assert goes_on.wait(20)
        return number

    try:
        assert await store.transact(count_up) == 1
        stopped = asyncio.ensure_future(store.transact(work))
        assert await asyncio.to_thread(has_locked.wait, 20)
        # This transaction waits for the locked row.
        assert await asyncio.wait_for(store.transact(count_up), 10) == 2
        goes_on.set()
        assert await stopped == 3
        assert tries == 2
    finally:
        goes_on.set()
        await store.close()


async def test_connection_that_ends_within_many_statements_logs_nothing_of_the_library(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = postgres_server.create_database()
    is_ended = False

    def work(tx: Transaction) -> None:
        nonlocal is_ended
        tx.many("UPDATE meta SET value = ? WHERE name = ?", end_at_first())

    def end_at_first() -> Iterator[tuple[str, str]]:
        nonlocal is_ended
        yield "a", "nobody"
        if not is_ended:
            is_ended = True
            with closing(connect(address)) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND datname = current_database()"
                )
        yield "b", "nobody"

    async with opened(address, tmp_path) as store:
        await store.transact(work)
    assert is_ended
    assert [record for record in caplog.records if record.name.startswith("psycopg")] == []
