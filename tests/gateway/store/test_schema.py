"""Schema and migrations on both engines."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent.records import frozen
from gateway.store.cipher import SEALED, SEALED_COLUMNS, Cipher
from gateway.store.errors import StoreError
from gateway.store.opening import whole_database
from gateway.store.port import Transaction
from gateway.store.postgres import migrator as postgres
from gateway.store.postgres.connection import connect
from gateway.store.postgres.transaction import PostgresTransaction
from gateway.store.repositories import jobs, usage
from gateway.store.repositories.conversations import choices, sessions
from gateway.store.repositories.delivery import inbox
from gateway.store.schema import Schema
from gateway.store.sqlite import migrator as sqlite
from tests import postgres_server
from tests.gateway import stored
from tests.gateway.cli.kore import kore
from tests.gateway.store import version_83, version_85
from tests.gateway.store.catalog import Catalog, catalog
from tests.gateway.store.later_schema import add_migration, later_schema
from tests.gateway.store.repositories.text_readers import READERS
from tests.gateway.store.version_83 import live_database

SCHEMAS = {"sqlite": sqlite.SCHEMA, "postgres": postgres.SCHEMA}
OFFLINE = {"KORE_AGENT_MODEL": "offline/echo"}
BACKUPS = {
    "plain": (version_83.PLAIN, None),
    "sealed": (version_83.SEALED, version_83.CIPHER),
}


def new_database(engine: str, folder: Path) -> str:
    if engine == "postgres":
        return postgres_server.server().create_empty_database()
    return f"sqlite:///{folder / 'new.db'}"


def upgrade(engine: str, url: str, schema: Schema) -> None:
    if engine == "postgres":
        with closing(connect(url)) as connection, connection.transaction():
            postgres.upgrade(PostgresTransaction(connection), url, schema)
        return
    path = Path(url.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        sqlite.upgrade(connection, path, schema)


def numbers(url: str) -> list[int]:
    """Return the numbers in the table `migration`, without opening the database as Kore does."""
    if url.startswith("sqlite"):
        rows = stored.read_sqlite(Path(url.removeprefix("sqlite:///")), "migration", "number")
    else:
        rows = stored.read_postgres(url, "migration", "number")
    return sorted(number for (number,) in rows)


def set_numbers(url: str, *numbers_kept: int) -> None:
    """Pretend that the database contains these migrations only."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute("DELETE FROM migration")
            connection.executemany(
                "INSERT INTO migration VALUES (?, 0)", [(n,) for n in numbers_kept]
            )
            connection.execute(f"PRAGMA user_version={max(numbers_kept)}")
        return
    with closing(connect(url)) as server, server.transaction():
        tx = PostgresTransaction(server)
        stored.delete(tx, "migration")
        for number in numbers_kept:
            stored.add(tx, "migration", number=number, applied_at=0)


def catalog_of(engine: str, url: str) -> Catalog:
    with whole_database(url).opened(None) as tx:
        return catalog(tx, engine)


# Baseline


def test_database_of_version_83_gets_the_tables_of_a_new_one(engine: str, tmp_path: Path) -> None:
    new = catalog_of(engine, new_database(engine, tmp_path))
    assert catalog_of(engine, live_database(engine, tmp_path)) == new


def test_database_of_version_83_keeps_its_rows(engine: str, tmp_path: Path) -> None:
    with whole_database(live_database(engine, tmp_path)).opened(None) as tx:
        check_rows(tx)


def test_choices_of_version_83_become_rows(engine: str, tmp_path: Path) -> None:
    url = live_database(engine, tmp_path)
    run_script(
        engine,
        url,
        "UPDATE session SET agent = 'plan', model = 'x/y', style = 'terse', queue_mode = 'steer',"
        " trace = 'full', thinking_wanted = 0, thinking_shown = 0",
    )
    with whole_database(url).opened(None) as tx:
        session = stored.read(tx, "session", "id")[0][0]
        assert choices.load(tx, session).stored == {
            "agent": "plan",
            "model": "x/y",
            "style": "terse",
            "queue": "steer",
            "trace": "full",
            "effort": "none",
            "thinking_display": "hidden",
        }


def test_session_of_version_83_without_choices_has_no_rows(engine: str, tmp_path: Path) -> None:
    url = live_database(engine, tmp_path)
    run_script(
        engine,
        url,
        "UPDATE session SET agent = 'default', model = NULL, style = NULL, queue_mode = NULL,"
        " trace = NULL, thinking_wanted = NULL, thinking_shown = 1",
    )
    with whole_database(url).opened(None) as tx:
        assert stored.count(tx, "session_choice") == 0


def test_offset_of_version_83_becomes_a_named_cursor(engine: str, tmp_path: Path) -> None:
    url = live_database(engine, tmp_path)
    run_script(engine, url, "DELETE FROM cursor")
    run_script(engine, url, "INSERT INTO cursor VALUES ('telegram', '42', 9007199254740993, 5)")
    with whole_database(url).opened(None) as tx:
        cursors = inbox.load_cursors(tx, "telegram", "42", not_before=5.0)
    assert cursors == {"offset": "9007199254740993"}


def test_choices_and_cursors_of_version_85_are_kept(tmp_path: Path) -> None:
    url = live_database("sqlite", tmp_path, version_85.PLAIN)
    assert max(numbers(url)) == 85
    with whole_database(url).opened(None) as tx:
        ((session,),) = stored.read(tx, "session_choice", "session")
        assert choices.load(tx, session).stored == {"effort": "high"}
        assert inbox.load_cursors(tx, "telegram", "main", not_before=5.0) == {"offset": "43"}


def test_rows_of_version_83_are_read_by_the_new_names_of_columns(
    engine: str, tmp_path: Path
) -> None:
    url = live_database(engine, tmp_path)
    run_script(engine, url, "DELETE FROM usage_reservation")
    run_script(
        engine,
        url,
        "INSERT INTO usage_reservation (by_turn, turn_id, session, chat, nano)"
        " VALUES (7, 6, 's', 'c', 5)",
    )
    run_script(
        engine,
        url,
        "INSERT INTO limit_notice (cap, scope, period, kind, at)"
        " VALUES ('cost_per_day_usd', '', '2026-11-28', 'warning', 5)",
    )
    with whole_database(url).opened(None) as tx:
        assert usage.reservations(tx, but_of=0) == [usage.Reservation(6, "s", "c", 5)]
        place = ("cost_per_day_usd", "", "2026-11-28")
        assert not usage.is_first(tx, place, "warning", 6.0)
        assert stored.count(tx, "api_answer", is_complete=1) == 1


def run_script(engine: str, url: str, script: str) -> None:
    """Run a statement without opening the database as Kore does."""
    if engine == "postgres":
        with closing(connect(url)) as connection, connection.transaction():
            connection.execute(script.encode())
        return
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute(script)


def test_folder_of_an_earlier_session_is_known_after_the_start(engine: str, tmp_path: Path) -> None:
    home = tmp_path / "h"
    home.mkdir()
    url = live_database(engine, home)
    run_script(
        engine,
        url,
        """UPDATE inbox SET payload = replace(payload, '"options":{', '"options":{"cwd":"/a",')
        WHERE payload LIKE '%kestrel%'""",
    )
    environ = {**OFFLINE, "KORE_STORE_URL": url}
    listed = kore("sessions", "list", "--json", home=home, environ=environ)
    folders = [info["folder"] for info in json.loads(listed.stdout)]
    assert {"workspace": "/a", "start_folder": None} in folders, listed.stderr
    assert None in folders


# Sealed columns that came after version 83.
LATER = {"session.folder", "goal.template", "goal.remark"}


def check_rows(tx: Transaction) -> None:
    (first, *_) = stored.read(tx, "session", "id", order="id", principal="cli:0")
    talk = sessions.load_all(tx, first[0])
    assert talk[0].text == "hello there, a kestrel"
    job = jobs.find(tx, 1)
    assert job is not None
    assert job.rule == "at 5"
    assert stored.count(tx, "language", chosen_language="zh") == 1


def test_every_sealed_text_of_version_83_opens(tmp_path: Path) -> None:
    url = live_database("sqlite", tmp_path, version_83.SEALED)
    with whole_database(url).opened(version_83.CIPHER) as tx:
        check_rows(tx)
        # A backup first moves queued entries to the audit log.
        assert opened_columns(tx) == set(SEALED_COLUMNS) - LATER - {"audit_outbox.entry"}


def test_sealed_database_of_version_83_rejects_another_key(tmp_path: Path) -> None:
    whole = whole_database(live_database("sqlite", tmp_path, version_83.SEALED))
    with (
        pytest.raises(StoreError, match="encrypted with a different key"),
        whole.opened(Cipher(bytes(32), "OTHER")),
    ):
        pass


# Columns without rows: a backup first moves queued entries to the audit log, the outbox is empty,
# an approval of another version is void, and arguments are raw text.
READ = sorted(
    column
    for column in READERS
    if column not in ("audit_outbox.entry", "approval.question", "step.args", *LATER)
    and not column.startswith("outbox.")
)


@frozen
class StoredScene:
    """Rows that `Scene` of `test_emptied_texts` wrote with version 83."""

    tx: Transaction
    session: str
    turn: int
    task: int


@pytest.mark.parametrize("column", READ)
@pytest.mark.parametrize("kind", ["plain", "sealed"])
def test_product_reads_the_rows_of_version_83(tmp_path: Path, column: str, kind: str) -> None:
    backup, cipher = BACKUPS[kind]
    with whole_database(live_database("sqlite", tmp_path, backup)).opened(cipher) as tx:
        ((turn, session),) = stored.read(tx, "approval", "turn_id", "session")
        ((task,),) = stored.read(tx, "task", "id")
        assert READERS[column](StoredScene(tx, session, turn, task))


def opened_columns(tx: Transaction) -> set[str]:
    """Open all sealed texts and return the columns that have any."""
    opened = set()
    for sealed in SEALED:
        place = len(sealed.key) + len(sealed.bound)
        for row in tx.all(sealed.select):
            for name, text in zip(sealed.columns, row[place:], strict=True):
                column = f"{sealed.table}.{name}"
                if tx.unseal(text, column, *row[:place]) is not None:
                    opened.add(column)
    return opened


@pytest.mark.parametrize(
    "backup",
    [version_83.PLAIN, version_83.SEALED, version_85.PLAIN],
    ids=["83, plain", "83, sealed", "85"],
)
def test_backup_of_an_older_version_is_restored_and_continues(
    engine: str, tmp_path: Path, backup: Path
) -> None:
    home = tmp_path / "h"
    environ = {**OFFLINE, "KEY": version_83.KEY.hex()}
    if engine == "postgres":
        environ["KORE_STORE_URL"] = postgres_server.server().create_empty_database()
    restored = kore("restore", backup, "--yes", home=home, environ=environ)
    assert restored.returncode == 0, restored.stderr
    assert (home / "workspace" / "notes.md").read_text() == "a note\n"
    listed = kore("sessions", "list", "--json", home=home, environ=environ)
    assert "a second conversation" in listed.stdout, listed.stderr
    process = kore("agent", "-c", "-m", "go on", home=home, environ=environ)
    assert "go on" in process.stdout, process.stderr


def test_live_data_of_version_83_continues(engine: str, tmp_path: Path) -> None:
    home = tmp_path / "h"
    home.mkdir()
    environ = {**OFFLINE, "KORE_STORE_URL": live_database(engine, home)}
    process = kore("agent", "-c", "-m", "go on", home=home, environ=environ)
    assert "go on" in process.stdout, process.stderr
    result = kore("sessions", "search", "kestrel", home=home, environ=environ)
    assert "hello there, a kestrel" in result.stdout, result.stderr


def test_older_database_is_rejected_with_an_upgrade_hint(engine: str, tmp_path: Path) -> None:
    url = live_database(engine, tmp_path)
    set_numbers(url, 77, 78, 82)
    early = pytest.raises(StoreError, match=r"early version of Kore \(schema 82;")
    with early as refused, whole_database(url).opened(None):
        pass
    assert "commit 40c09bfc" in str(refused.value.hint)
    assert numbers(url) == [77, 78, 82]


def test_doctor_reports_a_database_that_is_too_old(engine: str, tmp_path: Path) -> None:
    home = tmp_path / "h"
    home.mkdir()
    url = live_database(engine, home)
    set_numbers(url, 82)
    checked = kore("doctor", "--json", home=home, environ={**OFFLINE, "KORE_STORE_URL": url})
    (check,) = (item for item in json.loads(checked.stdout)["checks"] if item["name"] == "database")
    assert check["state"] == "fail"
    assert "is from an early version of Kore (schema 82" in check["detail"]
    assert "commit 40c09bfc" in check["fix"]


def test_older_backup_is_rejected_before_anything_is_replaced(tmp_path: Path) -> None:
    home, old = tmp_path / "h", tmp_path / "old"
    assert kore("agent", "-m", "mine", home=home, environ=OFFLINE).returncode == 0
    before = (home / "kore.db").read_bytes()
    set_numbers(live_database("sqlite", old), 82)
    refused = kore("restore", old / "kore.db", "--yes", home=home)
    assert refused.returncode != 0
    assert "is from an early version of Kore (schema 82" in refused.stderr
    assert "commit 40c09bfc" in refused.stderr
    assert (home / "kore.db").read_bytes() == before


# Migrations


def test_migration_is_applied_once(engine: str, tmp_path: Path) -> None:
    url = live_database(engine, tmp_path)
    later = later_schema(SCHEMAS[engine], tmp_path / "later")
    before = numbers(url)
    upgrade(engine, url, later)
    upgrade(engine, url, later)
    assert numbers(url) == [*before, *later.migrations]


def test_new_database_needs_no_migration(engine: str, tmp_path: Path) -> None:
    url = new_database(engine, tmp_path)
    later = later_schema(SCHEMAS[engine], tmp_path / "later")
    upgrade(engine, url, later)
    assert numbers(url) == sorted(later.numbers)
    upgrade(engine, url, later)


def test_migration_with_a_lower_number_may_come_later(engine: str, tmp_path: Path) -> None:
    url = new_database(engine, tmp_path)
    schema = later_schema(SCHEMAS[engine], tmp_path / "later")
    first, last = schema.newest + 1, schema.newest + 2
    add_migration(schema.folder, last, "SELECT 1;")
    upgrade(engine, url, schema)
    add_migration(schema.folder, first, "DROP TABLE later;")
    assert first not in numbers(url)
    upgrade(engine, url, schema)
    assert numbers(url) == sorted(schema.numbers)


def test_failed_migration_leaves_the_database_unchanged(engine: str, tmp_path: Path) -> None:
    url = live_database(engine, tmp_path)
    later = later_schema(SCHEMAS[engine], tmp_path / "later")
    add_migration(later.folder, later.newest, "CREATE TABLE half (id int); SELECT broken;")
    tables, before = catalog_of(engine, url), numbers(url)
    with pytest.raises(Exception, match="broken"):
        upgrade(engine, url, later)
    assert numbers(url) == before
    assert catalog_of(engine, url) == tables


def test_newer_database_is_rejected(engine: str, tmp_path: Path) -> None:
    url = live_database(engine, tmp_path)
    upgrade(engine, url, later_schema(SCHEMAS[engine], tmp_path / "later"))
    newer = pytest.raises(StoreError, match="was created by a newer Kore")
    with newer, whole_database(url).opened(None):
        pass
