"""Copying all data between the engines: every row arrives, and Kore continues with the copy."""

import json
from pathlib import Path

import pytest

from agent.providers.scripted import ScriptedProvider
from gateway.core.messages import OutboundPart, Route
from gateway.store.cipher import Cipher
from gateway.store.copying import WholeDatabase, copy_store
from gateway.store.errors import StoreError, StoreTakenOver
from gateway.store.opening import copy_unowned, join_store, whole_database, whole_postgres
from gateway.store.port import Transaction
from gateway.store.postgres.connection import connect
from gateway.store.repositories import preferences
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply
from tests import postgres_server
from tests.gateway.cli.kore import kore
from tests.gateway.parts import accept_messages, chat_message, load_history, running

KEY = Cipher(bytes(range(32)), "KEY")


def rows_of(database: WholeDatabase, cipher: Cipher | None) -> dict[str, list[tuple[object, ...]]]:
    with database.opened(cipher) as tx:
        return {
            name: tx.all(
                f"SELECT {', '.join(table.columns)} FROM {name} ORDER BY {', '.join(table.key)}"
            )
            for name, table in database.tables(tx).items()
        }


async def talk(folder: Path, *texts: str, cipher: Cipher | None = None) -> list[str]:
    """Run a turn for each text and return the texts of the whole conversation."""
    model = ScriptedProvider([f"re: {text}" for text in texts])
    async with running(folder, model, cipher=cipher) as parts:
        for text in texts:
            message = chat_message(text)
            await accept_messages(parts, message)
            await parts.until_answered(message)
        return [message.text for message in await load_history(parts)]


def test_both_engines_have_the_same_tables(tmp_path: Path) -> None:
    sqlite = whole_database(f"sqlite:///{tmp_path}/a.db")
    postgres = whole_database(postgres_server.create_database())
    with sqlite.opened(None) as stream, postgres.opened(None) as other:
        assert sqlite.tables(stream) == postgres.tables(other)


@pytest.mark.parametrize("cipher", [None, KEY], ids=["plain", "sealed"])
async def test_conversation_survives_a_copy_in_both_directions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cipher: Cipher | None
) -> None:
    there, back = tmp_path / "there", tmp_path / "back"
    for folder in (there, back):
        folder.mkdir()
    await talk(tmp_path, "one", "Grüße 你好", cipher=cipher)
    sqlite = whole_database(f"sqlite:///{tmp_path}/kore.db", exists=True)
    postgres = whole_postgres(postgres_server.database_of(there / "kore.db"))
    counts = copy_store(sqlite, postgres, cipher)
    assert counts["message"] == 4
    copied = rows_of(postgres, cipher)
    assert copied == rows_of(sqlite, cipher)
    with pytest.raises(StoreError, match="not empty"):
        copy_store(sqlite, postgres, cipher)
    # A copy works without ownership and without the key.
    unowned = tmp_path / "unowned.db"
    copy_unowned(postgres.address, unowned)
    assert rows_of(whole_database(f"sqlite:///{unowned}"), cipher) == copied
    assert unowned.stat().st_mode & 0o077 == 0
    # New rows are numbered after the copied rows.
    monkeypatch.setenv("KORE_TEST_STORE", "postgres")
    assert len(await talk(there, "three", cipher=cipher)) == 6
    last = whole_database(f"sqlite:///{back}/kore.db")
    copy_store(postgres, last, cipher)
    assert rows_of(last, cipher) == rows_of(postgres, cipher)
    monkeypatch.setenv("KORE_TEST_STORE", "sqlite")
    texts = await talk(back, "four", cipher=cipher)
    assert texts[::2] == ["one", "Grüße 你好", "three", "four"]


async def test_workers_cannot_store_during_a_copy(tmp_path: Path) -> None:
    address = postgres_server.create_database()
    with whole_database(address).opened(None):
        pass
    worker = join_store(address, tmp_path, cipher=None, lease_s=60.0)
    try:
        await worker.transact(preferences.put_state, "before", "1")
        with whole_database(address).opened(None), pytest.raises(StoreTakenOver):
            await worker.transact(preferences.put_state, "meanwhile", "1")
    finally:
        await worker.close()


def test_number_of_a_deleted_delivery_is_not_reused(tmp_path: Path) -> None:
    there = whole_database(postgres_server.create_database())
    sqlite, back = (whole_database(f"sqlite:///{tmp_path}/{name}.db") for name in ("a", "b"))
    with sqlite.opened(None) as tx:
        for delivery in ("one", "two", "three"):
            put_delivery(tx, delivery)
        tx.run("DELETE FROM outbox")
    for source, target in ((sqlite, there), (there, back)):
        copy_store(source, target, None)
        assert [rows_of(item, None)["outbox"] for item in (source, target)] == [[], []]
    with there.opened(None) as stream, back.opened(None) as other:
        assert (put_delivery(stream, "four"), put_delivery(other, "four")) == (4, 4)


def put_delivery(tx: Transaction, delivery: str) -> int:
    route = Route("telegram", "1", "7")
    outbox.put(tx, None, [OutgoingReply(delivery, route, [OutboundPart(delivery)])], 1.0)
    return int(tx.one("SELECT max(seq) FROM outbox")[0])


def test_command_copies_backs_up_and_restores(tmp_path: Path) -> None:
    home = tmp_path / "kore"
    offline = {"KORE_AGENT_MODEL": "offline/echo"}
    assert kore("agent", "-m", "hello there", home=home, environ=offline).returncode == 0
    address = postgres_server.create_database()
    copied = kore("store", "copy", "store", address, "--json", home=home)
    assert copied.returncode == 0, copied.stderr
    assert json.loads(copied.stdout)["tables"]["message"] >= 2
    on_server = {**offline, "KORE_STORE_URL": address}
    shown = kore("sessions", "list", "--json", home=home, environ=on_server)
    assert len(json.loads(shown.stdout)) == 1, shown.stderr
    assert kore("agent", "-c", "-m", "again", home=home, environ=on_server).returncode == 0
    doctor = kore("doctor", "--json", home=home, environ=on_server).stdout
    (check,) = (item for item in json.loads(doctor)["checks"] if item["name"] == "database")
    assert check["state"] == "ok"
    backup = kore("backup", tmp_path / "b.db", home=home, environ=on_server)
    assert backup.returncode == 0, backup.stderr
    empty = {**offline, "KORE_STORE_URL": postgres_server.create_database()}
    words = ("restore", tmp_path / "b.db", "-y", "--database-only")
    assert kore(*words, home=home, environ=empty).returncode == 0
    refused = kore(*words, home=home, environ=empty)
    assert refused.returncode != 0
    assert "is not empty" in refused.stderr
    process = kore("sessions", "search", "again", home=home, environ=empty)
    assert "again" in process.stdout, process.stderr


def test_connection_error_does_not_show_the_password(tmp_path: Path) -> None:
    environ = {"KORE_STORE_URL": "postgresql://kore:hunter2@127.0.0.1:1/kore"}
    ran = kore("agent", "-m", "hi", home=tmp_path / "kore", environ=environ)
    assert ran.returncode != 0
    assert "cannot connect to the database postgresql://kore@127.0.0.1:1/kore" in ran.stderr
    assert "hunter2" not in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    for words in (("config", "show", "--json"), ("config", "list"), ("doctor",)):
        shown = kore(*words, home=tmp_path / "kore", environ=environ)
        assert "hunter2" not in shown.stdout + shown.stderr, words


def test_differing_copy_is_discarded(tmp_path: Path) -> None:
    """A trigger in the target database changes the stored rows."""
    home = tmp_path / "kore"
    offline = {"KORE_AGENT_MODEL": "offline/echo"}
    assert kore("agent", "-m", "hello", home=home, environ=offline).returncode == 0
    address = postgres_server.create_database()
    with connect(address) as connection:
        connection.execute(
            "CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN NEW.role = 'odd'; RETURN NEW; END $$"
        )
        connection.execute(
            "CREATE TRIGGER odd BEFORE INSERT ON message FOR EACH ROW EXECUTE FUNCTION odd()"
        )
    with pytest.raises(StoreError, match="row 1 of the table message is not the same"):
        copy_store(whole_database(f"sqlite:///{home}/kore.db"), whole_database(address), None)
    with connect(address) as connection:
        assert connection.execute("SELECT count(*) FROM message").fetchone() == (0,)
