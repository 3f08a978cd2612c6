"""Audit entries of workers: stored before the call begins, then moved to the owner's log."""

import json
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from agent.security.audit import AuditLevel
from gateway.ops.audit.log import AuditLog
from gateway.ops.audit.relay import BATCH, AuditRelay, StoredAuditSink
from gateway.ops.audit.trail import CURRENT, AuditError, entries
from gateway.ops.audit.verify import verify
from gateway.store.cipher import Cipher
from gateway.store.port import Transaction
from gateway.store.repositories import audit_outbox
from gateway.store.repositories.audit_outbox import AuditNote
from tests import fork_server, postgres_server
from tests.gateway.databases import OpenStore, open_database
from tests.gateway.ops.audit.entries import entry
from tests.gateway.parts import wait_until
from tests.gateway.stored import count, read

ENVIRON = {"PATH": os.environ["PATH"]}


@pytest.fixture(params=["sqlite", "postgres"])
async def store(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[OpenStore]:
    choose_engine(request.param, monkeypatch)
    database = open_database(tmp_path / "kore.db")
    yield database
    await database.close()


def choose_engine(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KORE_TEST_STORE", engine)


def sink_of(database: OpenStore, **more: Any) -> StoredAuditSink:
    return StoredAuditSink(database, more.pop("notify", lambda: None), worker="w1", **more)


async def flush(database: OpenStore, folder: Path, **more: Any) -> list[dict[str, Any]]:
    """Flush stored entries and return the content of the log."""
    log = AuditLog(folder / "audit", **more)
    await AuditRelay(database, log, folder / "pending").flush()
    await log.close()
    assert verify(folder / "audit").faults == []
    return list(entries(folder / "audit"))


def without_chain(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if "hash" not in name}


@pytest.mark.parametrize("level", ["summary", "full"])
async def test_stored_entry_equals_the_logged_entry(
    store: OpenStore, tmp_path: Path, level: AuditLevel
) -> None:
    params = {
        "path": "sk-123/" + "x" * 500,
        "content": "SECRET sk-123",
        "deep": {"a": [1, None, "sk-123"]},
        "odd": "\0\u2028é",
    }
    call = entry(params=params, reason="asked about sk-123")

    def clean(text: str) -> str:
        return text.replace("sk-123", "***")

    log = AuditLog(tmp_path / "own", level=lambda: level, clean=clean)
    await log.record(call)
    await log.close()
    (own,) = entries(tmp_path / "own")
    await sink_of(store, level=lambda: level, clean=clean).record(call)
    rows = await store.transact(read, "audit_outbox")
    assert "sk-123" not in str(rows)
    # The owner's level has changed since: a summarized entry stays as it is.
    (line,) = await flush(store, tmp_path, level=lambda: "summary")
    assert without_chain(line) == {**without_chain(own), "agent_id": "main@w1"}


async def test_owner_is_notified_after_an_entry_is_stored(store: OpenStore) -> None:
    notices: list[str] = []
    sink = sink_of(store, notify=lambda: notices.append("entry"))
    await sink.record(entry())
    assert notices == ["entry"]
    assert await store.transact(count, "audit_outbox") == 1


async def test_none_level_stores_nothing(store: OpenStore) -> None:
    await sink_of(store, level=lambda: "none").record(entry())
    assert await store.transact(count, "audit_outbox") == 0


async def test_unstorable_entry_is_rejected_before_its_call(
    store: OpenStore,
) -> None:
    deep: dict[str, Any] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    for odd in ({"n": 10**5_000}, {"deep": deep}):
        with pytest.raises(AuditError):
            await sink_of(store, level=lambda: "full").record(entry(params=odd))
    assert await store.transact(count, "audit_outbox") == 0


async def test_notes_and_entries_keep_their_order(store: OpenStore, tmp_path: Path) -> None:
    sink = sink_of(store)
    await sink.record(entry("first"))
    await store.transact(audit_outbox.put, AuditNote(1.0, "pairing", "let in", {"who": "chat:8"}))
    await sink.record(entry("last"))
    lines = await flush(store, tmp_path)
    assert [(line["tool"], line["params"]) for line in lines] == [
        ("read_file", {"path": "notes/first.md"}),
        ("kore:pairing", {"who": "chat:8"}),
        ("read_file", {"path": "notes/last.md"}),
    ]


def put_many(tx: Transaction, number: int) -> None:
    for n in range(number):
        audit_entry = entry(str(n))
        audit_outbox.put_entry(tx, audit_entry, json.dumps(asdict(audit_entry)))


async def test_thousands_of_entries_are_transferred_in_batches(
    store: OpenStore, tmp_path: Path
) -> None:
    await store.transact(put_many, 2 * BATCH + 1)
    lines = await flush(store, tmp_path)
    paths = [line["params"]["path"] for line in lines]
    assert paths == [f"notes/{n}.md" for n in range(2 * BATCH + 1)]
    assert await store.transact(count, "audit_outbox") == 0


async def test_killed_owner_loses_no_entry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    choose_engine("sqlite", monkeypatch)
    number = 4 * BATCH
    database = open_database(tmp_path / "kore.db")
    await database.transact(put_many, number)
    await database.close()
    process = fork_server.start(
        ["python", "-m", "tests.gateway.ops.audit.flushing", tmp_path], cwd=tmp_path, env=ENVIRON
    )
    trail = tmp_path / "audit" / CURRENT
    await wait_until(lambda: trail.exists() and trail.stat().st_size)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    database = open_database(tmp_path / "kore.db")
    assert await database.transact(count, "audit_outbox") > 0
    lines = await flush(database, tmp_path)
    await database.close()
    paths = [line["params"]["path"] for line in lines if line["tool"] == "read_file"]
    assert {f"notes/{n}.md" for n in range(number)} == set(paths)
    # Only the batch in progress may be written twice.
    assert len(paths) <= number + BATCH


async def test_entry_is_encrypted_with_a_key(tmp_path: Path) -> None:
    cipher = Cipher(b"k" * 32, "K")
    database = open_database(tmp_path / "kore.db", cipher)
    await sink_of(database, level=lambda: "full").record(entry(params={"content": "CANARY"}))
    assert "CANARY" not in str(await database.transact(read, "audit_outbox"))
    (line,) = await flush(database, tmp_path)
    await database.close()
    assert line["params"] == {"content": "CANARY"}


async def test_killed_worker_loses_no_acknowledged_entry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    choose_engine("postgres", monkeypatch)
    database = open_database(tmp_path / "kore.db")
    address = postgres_server.database_of(tmp_path / "kore.db")
    process = await fork_server.start_piped(
        ["python", "-m", "tests.gateway.ops.audit.storing", address], cwd=tmp_path, env=ENVIRON
    )
    log = AuditLog(tmp_path / "audit")
    relay = AuditRelay(database, log, tmp_path / "pending")
    promised = b"0"
    for _ in range(30):
        promised = await process.stdout.readline()
        await relay.flush()
    process.send_signal(signal.SIGKILL)
    rest = (await process.stdout.read()).split()
    await process.wait()
    await relay.flush()
    await log.close()
    await database.close()
    assert verify(tmp_path / "audit").faults == []
    lines = list(entries(tmp_path / "audit"))
    assert {line["agent_id"] for line in lines} == {"main@other"}
    rounds = int(rest[-1] if rest else promised)
    paths = [line["params"]["path"] for line in lines]
    assert {f"notes/{n}-{i}.md" for n in range(rounds) for i in range(3)} <= set(paths)
    # Entries have the order in which they were acknowledged.
    order = [int(path.removeprefix("notes/").partition("-")[0]) for path in paths]
    assert order == sorted(order)
