import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.store.errors import StoreError
from gateway.store.port import Transaction
from gateway.store.sqlite.engine import SqliteStore, connect
from tests.gateway.store.transactions import open_transaction


def note(tx: Transaction, text: str) -> None:
    tx.run(
        "INSERT INTO cursor (channel, account, name, value, seen_at) VALUES (?, '', '', '', 0)",
        (text,),
    )


def notes(tx: Transaction) -> list[str]:
    return [text for (text,) in tx.all("SELECT channel FROM cursor ORDER BY channel")]


def fill(tx: Transaction) -> None:
    """Write more than the disk can take."""
    tx.run(
        "INSERT INTO inbox (channel, account, event_id, lane, principal, payload, received_at)"
        " VALUES ('', '', '', '', '', hex(zeroblob(4000000)), 0)"
    )


def small_disk(tx: Transaction) -> None:
    (pages,) = tx.one("PRAGMA page_count")
    tx.run(f"PRAGMA max_page_count={pages + 20}")


async def together(database: SqliteStore, *works: Callable[[Transaction], object]) -> list[object]:
    """Run the functions in one group commit and return their results or errors."""
    begun, go = threading.Event(), threading.Event()

    def hold(_: Transaction) -> None:
        begun.set()
        go.wait(10)

    holding = asyncio.create_task(database.transact(hold))
    await asyncio.to_thread(begun.wait, 10)
    running = [asyncio.create_task(database.transact(work)) for work in works]
    await asyncio.sleep(0)
    go.set()
    await holding
    return await asyncio.gather(*running, return_exceptions=True)


async def test_committed_data_survives_reopening(tmp_path: Path) -> None:
    database = SqliteStore.open(tmp_path / "kore.db")
    await database.transact(note, "kept")
    await database.close()
    database = SqliteStore.open(tmp_path / "kore.db", check=True)
    assert await database.transact(notes) == ["kept"]
    await database.close()
    assert (tmp_path / "kore.db").stat().st_mode & 0o777 == 0o600


def test_write_ahead_log_is_private(tmp_path: Path) -> None:
    with open_transaction(tmp_path / "kore.db"):
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"kore.db": 0o600, "kore.db-wal": 0o600}


async def test_error_rolls_back_only_its_own_work(database: SqliteStore) -> None:
    def broken(tx: Transaction) -> None:
        note(tx, "half done")
        raise ValueError("a bug")

    def clash(tx: Transaction) -> None:
        note(tx, "a")

    a, bug, refused, b = await together(
        database, lambda c: note(c, "a"), broken, clash, lambda c: note(c, "b")
    )
    assert a is b is None
    assert isinstance(bug, ValueError)
    assert isinstance(refused, StoreError)
    assert await database.transact(notes) == ["a", "b"]


async def test_full_disk_fails_only_its_own_transaction(database: SqliteStore) -> None:
    await database.transact(small_disk)
    a, full, b = await together(database, lambda c: note(c, "a"), fill, lambda c: note(c, "b"))
    assert a is b is None
    assert isinstance(full, StoreError)
    assert "the disk is full" in str(full)
    assert await database.transact(notes) == ["a", "b"]
    assert await database.transact(lambda c: c.one("SELECT count(*) FROM inbox")) == (0,)


async def test_cancelled_caller_waits_for_its_transaction(database: SqliteStore) -> None:
    begun, go = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        begun.set()
        go.wait(10)
        note(tx, "kept")

    task = asyncio.create_task(database.transact(slow))
    await asyncio.to_thread(begun.wait, 10)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await database.transact(notes) == ["kept"]


async def test_closed_database_rejects_work(tmp_path: Path) -> None:
    database = SqliteStore.open(tmp_path / "kore.db")
    last = asyncio.create_task(database.transact(note, "last"))
    await asyncio.sleep(0)
    await database.close()
    await database.close()
    await last
    with pytest.raises(StoreError, match="closed"):
        await database.transact(note, "late")


def refused(path: Path, *, check: bool = False) -> str:
    """Return the error of opening the file, which must be unchanged."""
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        connect(path, check=check)
    assert path.read_bytes() == before
    sentence = str(caught.value)
    assert str(path) in sentence
    assert "\n" not in sentence
    return sentence


def test_file_that_is_not_a_database_is_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    path.write_bytes(b"my diary\n" * 1000)
    assert "damaged" in refused(path)


def test_damaged_database_is_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    tx = open_transaction(path)
    for n in range(200):
        note(tx, f"{n}" * 50)
    tx.close()
    data = bytearray(path.read_bytes())
    data[4096 * 3 :] = bytes(len(data) - 4096 * 3)
    path.write_bytes(data)
    assert "damaged" in refused(path, check=True)


def test_newer_database_is_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    tx = open_transaction(path)
    tx.run("PRAGMA user_version=999")
    tx.close()
    assert "created by a newer Kore (schema 999" in refused(path)


def test_database_of_another_program_is_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    connect(path).close()
    program = (
        "import sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN EXCLUSIVE')\n"
        "c.execute(\"INSERT INTO cursor VALUES ('other', '', '', '', 0)\")\n"
        "print('mine', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        assert "in use by another program" in refused(path)
        other.communicate()
    tx = open_transaction(path)
    assert notes(tx) == []
    tx.close()


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot open the database"):
        connect(tmp_path / "missing" / "kore.db")


def test_empty_file_gets_every_table(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    path.touch()
    tx = open_transaction(path)
    tables = {name for (name,) in tx.all("SELECT name FROM sqlite_schema")}
    assert {"inbox", "outbox", "turn", "step", "message", "session", "binding"} <= tables
    assert tx.one("PRAGMA user_version") >= (1,)
    assert tx.one("PRAGMA synchronous") == (2,)
    assert tx.one("PRAGMA journal_mode") == ("wal",)
    assert tx.one("PRAGMA foreign_keys") == (1,)
    tx.close()


async def test_backup_during_writes_is_consistent(tmp_path: Path, database: SqliteStore) -> None:
    await database.transact(lambda c: [note(c, f"{n:05}" + "x" * 500) for n in range(2000)])
    backup = asyncio.create_task(database.backup(tmp_path / "copy.db"))
    result = 0
    while not backup.done():
        await database.transact(note, f"during {result}")
        result += 1
    size = await backup
    target = tmp_path / "copy.db"
    assert target.stat().st_size == size
    assert target.stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in tmp_path.glob("copy*")) == ["copy.db"]
    copy = open_transaction(target, check=True)
    assert len([text for text in notes(copy) if not text.startswith("during")]) == 2000
    copy.close()
    assert len(await database.transact(notes)) == 2000 + result


async def test_backup_overwrites_nothing(tmp_path: Path, database: SqliteStore) -> None:
    target = tmp_path / "copy.db"
    target.write_bytes(b"precious")
    with pytest.raises(StoreError, match="already exists"):
        await database.backup(target)
    assert target.read_bytes() == b"precious"


async def test_backup_needs_a_folder(tmp_path: Path, database: SqliteStore) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        await database.backup(tmp_path / "missing" / "copy.db")


_REWRITING = """
import asyncio, sys
from pathlib import Path
from gateway.store.sqlite.engine import SqliteStore

def most_kb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

async def main(path):
    database = SqliteStore.open(path)
    await database.transact(lambda c: c.one("SELECT count(*) FROM filling"))
    before = most_kb()
    await database.rewrite()
    print(most_kb() - before)
    await database.close()

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells what a process has taken")
async def test_rewrite_takes_constant_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.db"
    with open_transaction(path) as tx:
        tx.run("CREATE TABLE filling (text BLOB)")
        for _ in range(60):
            tx.run("INSERT INTO filling VALUES (randomblob(1000000))")
    script = [sys.executable, "-c", _REWRITING, str(path)]
    grown_kb = int(subprocess.run(script, capture_output=True, check=True, timeout=120).stdout)
    assert grown_kb < 25_000
    assert {file.name for file in tmp_path.iterdir()} <= {"large.db", "large.db-wal"}
