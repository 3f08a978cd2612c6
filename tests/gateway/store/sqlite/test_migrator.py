import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from agent.serialization import dumps, message_to_json
from agent.types import user
from agent.undo.records import FileChange
from gateway.core.messages import Route
from gateway.store.cipher import KEY_BYTES, Cipher
from gateway.store.errors import StoreError
from gateway.store.repositories import audit_outbox, file_changes, jobs, preferences
from gateway.store.repositories.access import grants, members
from gateway.store.repositories.conversations import rewinding, sessions, transcripts
from gateway.store.repositories.conversations.sessions import ThinkingChoice
from gateway.store.repositories.delivery import chats, outbox, pending_media
from gateway.store.sealing import mark_sealed
from gateway.store.sqlite.engine import connect
from gateway.store.sqlite.migrator import COPIES_KEPT, copies, keep_copy, scripts, upgrade
from gateway.store.sqlite.transaction import SqliteTransaction
from tests.gateway.parts import chat_message
from tests.gateway.store.sqlite.new_database import describe, migrated


def older(path: Path, upto: int = 6) -> None:
    """A database as a Kore of that many migrations left it, with one row."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for number, script in scripts().items():
            if number <= upto:
                connection.executescript(script.read_text("utf-8"))
        connection.execute(f"PRAGMA user_version={upto}")
        connection.execute("INSERT INTO cursor VALUES ('telegram', '', 42, 0)")
        if upto > 15:  # From there on numbers have gaps, and each is noted.
            connection.execute(
                "CREATE TABLE migration (number INTEGER PRIMARY KEY, applied_at REAL)"
            )
            noted = [(number, 0) for number in scripts() if number <= upto]
            connection.executemany("INSERT INTO migration VALUES (?, ?)", noted)


def offset(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT next_offset FROM cursor").fetchone()[0])


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}


def numbers(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [n for (n,) in connection.execute("SELECT number FROM migration ORDER BY number")]


def test_an_upgrade_keeps_a_copy_of_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    older(path)
    connect(path).close()
    (copy,) = copies(path)
    assert offset(path) == offset(copy) == 42
    assert "file_change" in tables(path)
    assert not {"change", "file_change"} & tables(copy)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert numbers(path) == sorted(scripts())


def test_deliveries_keep_their_numbers_and_every_column(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    older(path, 77)
    with closing(sqlite3.connect(path)) as connection, connection:
        for seq in (5, 9):
            connection.execute(
                "INSERT INTO outbox (seq, delivery_id, part, lane, channel, account, chat, kind,"
                " body, state, created_at, waited_s, is_shown, files, edits) VALUES (?, ?, 0, 'l',"
                " 'telegram', '1', '7', 'final', 'words', 'pending', 3.5, 1.5, 1, '[1]', 'e')",
                (seq, f"pair:{seq}"),
            )
        before = connection.execute("SELECT * FROM outbox ORDER BY seq").fetchall()
    connect(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        after = connection.execute("SELECT * FROM outbox ORDER BY seq").fetchall()
        assert after == before
        connection.execute("DELETE FROM outbox WHERE seq = 9")
        connection.execute(
            "INSERT INTO outbox (delivery_id, part, lane, channel, account, chat, kind, body,"
            " state, created_at) VALUES ('new', 0, 'l', 'telegram', '1', '7', 'final', '',"
            " 'sent', 4)"
        )
        assert connection.execute("SELECT max(seq) FROM outbox").fetchone()[0] == 10
        # The words of a pairing code still go with its delivery.
        outbox.set_sent(SqliteTransaction(connection), 5, "77")
        assert connection.execute("SELECT body FROM outbox WHERE seq = 5").fetchone()[0] == ""


def test_a_new_database_and_one_that_is_up_to_date_are_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    connect(path).close()
    connect(path).close()
    assert not path.with_name("backups").exists()


def test_a_new_database_has_the_tables_of_all_migrations(tmp_path: Path) -> None:
    schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
    version = "PRAGMA user_version"
    with closing(migrated()) as old, closing(connect(tmp_path / "kore.db")) as new:
        assert new.execute(schema).fetchall() == old.execute(schema).fetchall()
        assert new.execute(version).fetchone() == old.execute(version).fetchone()
        # Rows that a migration leaves are refused here.
        assert describe(old)
    assert numbers(tmp_path / "kore.db") == sorted(scripts())


def test_a_new_database_starts_from_the_file_of_tables(tmp_path: Path) -> None:
    written = set[str]()
    with closing(sqlite3.connect(tmp_path / "kore.db", isolation_level=None)) as connection:
        connection.set_trace_callback(written.add)
        upgrade(connection, tmp_path / "kore.db")
        (applied_at,) = connection.execute("SELECT min(applied_at) FROM migration").fetchone()
    assert not [one for one in written if "RENAME" in one]
    assert abs(time.time() - applied_at) < 3600


def test_a_kill_while_a_database_is_made_leaves_none(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    killed_upgrade(path, 40)
    assert tables(path) == set()
    connect(path, check=True).close()
    assert numbers(path) == sorted(scripts())
    assert not path.with_name("backups").exists()


def test_a_migration_that_comes_late_with_a_lower_number_is_applied(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    connect(path).close()
    late = 49
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM migration WHERE number = ?", (late,))
        connection.execute("DROP TABLE language")
    assert late not in numbers(path)
    connect(path).close()
    assert late in numbers(path)
    assert "language" in tables(path)


def test_a_number_that_this_kore_does_not_know_is_a_newer_database(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    connect(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO migration VALUES (4321, 0)")
    with pytest.raises(StoreError, match="newer Kore"):
        connect(path)


def test_without_room_for_the_copy_nothing_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    older(path)
    path.with_name("backups").write_text("a file in the way")
    with pytest.raises(StoreError, match="it could not be backed up first"):
        connect(path)
    assert not {"change", "file_change"} & tables(path)
    assert offset(path) == 42


def test_only_the_newest_copies_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    older(path)
    folder = path.with_name("backups")
    folder.mkdir()
    for day in range(1, 7):
        (folder / f"before-upgrade-2020010{day}-000000.db").touch()
    (folder / "before-upgrade-20200101-000000.part").touch()
    with closing(sqlite3.connect(path)) as connection:
        newest = keep_copy(connection, path)
    assert len(copies(path)) == COPIES_KEPT
    assert copies(path)[-1] == newest
    assert not list(folder.glob("*.part"))


@pytest.mark.parametrize("steps", [1, 40, 200, 800, 1500])
def test_a_kill_in_the_middle_leaves_a_database_that_is_upgraded_later(
    tmp_path: Path, steps: int
) -> None:
    path = tmp_path / "kore.db"
    older(path, 2)
    killed_upgrade(path, steps)
    connection = connect(path, check=True)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    assert offset(path) == 42
    assert numbers(path) == sorted(scripts())
    assert os.listdir(path.with_name("backups"))


def killed_upgrade(path: Path, steps: int) -> None:
    """Upgrade in a process that is killed after so many steps of SQLite, or at the end."""
    program = (
        "import os, signal, sqlite3, sys\n"
        "from pathlib import Path\n"
        "from gateway.store.sqlite.migrator import upgrade\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "left = int(sys.argv[2])\n"
        "def step():\n"
        "    global left\n"
        "    left -= 1\n"
        "    if left <= 0: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return 0\n"
        "c.set_progress_handler(step, 10)\n"
        "upgrade(c, Path(sys.argv[1]))\n"
        "step.__globals__['left'] = 1; step()\n"
    )
    died = subprocess.run([sys.executable, "-c", program, path, str(steps)], check=False)
    assert died.returncode == -signal.SIGKILL


def test_what_people_chose_for_a_session_is_read_from_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    older(path, 66)
    chosen = {
        "model": "openai/gpt",
        "mode": "plan",
        "queue": "steer",
        "thinking": {"wanted": False, "shown": False},
        "trace": "full",
        "bits": 2.5,
        "begun_by": 7,
    }
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(
            "INSERT INTO session (id, parent, principal, created_at, last_active_at, metadata)"
            " VALUES (?, ?, 'telegram:1', 0, 0, ?)",
            [
                ("chosen", None, json.dumps(chosen)),
                ("copy", "chosen", json.dumps(chosen)),
                ("untouched", None, "{}"),
                ("half", None, json.dumps({"model": None, "thinking": {"wanted": True}})),
            ],
        )
    connection = connect(path, check=True)
    tx = SqliteTransaction(connection)
    row = sessions.load_row(tx, "chosen")
    assert (row.model, row.mode, row.queue) == ("openai/gpt", "plan", "steer")
    assert (row.thinking, row.trace, row.bits) == (ThinkingChoice(False, False), "full", 2.5)
    assert sessions.is_begun_by(tx, "chosen", 7)
    assert not sessions.is_begun_by(tx, "copy", 7)
    assert sessions.load_row(tx, "copy").mode == "plan"
    for name, wanted in (("untouched", None), ("half", True)):
        row = sessions.load_row(tx, name)
        assert (row.model, row.mode, row.queue, row.trace) == (None, None, None, None)
        assert (row.thinking, row.bits) == (ThinkingChoice(wanted), 0)
    connection.close()


def test_rows_of_renamed_tables_stay_and_sealed_ones_open(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    older(path, 66)
    cipher = Cipher(b"k" * KEY_BYTES, "KORE_KEY")
    said_at = ("telegram", "bot", "e1")
    grant = ("telegram:1", "s", "hash")
    text = dumps(message_to_json(user("hi")))
    entry = {"root": "/w", **FileChange(Path("a.txt"), None, None).to_json()}
    rows: dict[str, Sequence[object]] = {
        "session (id, principal, created_at, last_active_at)": ("s", "telegram:1", 0, 0),
        "message (session, n, role, content, created_at)": (
            *("s", 1, "user", cipher.seal(text, "message.content", "s", 1), 0),
        ),
        "standing (principal, session, grant_hash, title, folder, granted_by, granted_at)": (
            *grant,
            cipher.seal("exec ls", "standing.title", *grant, "telegram:1"),
            cipher.seal("/w", "standing.folder", *grant, "telegram:1"),
            *("telegram:1", 5),
        ),
        "overheard (channel, account, event_id, lane, text)": (
            *said_at,
            *("telegram:bot:9", cipher.seal("Bob: hello", "overheard.text", *said_at)),
        ),
        "whereabouts (channel, account, chat, state, reason, at)": (
            *("telegram", "bot", "9", "out", "blocked", 3),
        ),
        "findable (session, n)": ("s", 1),
        "kept_line (session, n, i, covers, line)": (
            *("s", 1, 0, 1, cipher.seal('{"role": "user"}', "kept_line.line", "s", 1, 0)),
        ),
        "guess (principal, wrong, locked_until)": ("telegram:2", 4, 99),
        "undoing (name, session, plan, report, made_at)": (
            *("k:chat", "s", cipher.seal("", "undoing.plan", "k:chat")),
            *(cipher.seal("fork", "undoing.report", "k:chat"), 0),
        ),
        "note (at, what, reason, allowed, session, params)": (1, "mode", "why", 1, "s", "{}"),
        "move (channel, first, now)": ("telegram", "-1", "-100"),
        "job (id, made_by, kind, template, principal, channel, account, chat, rule, zone, catch_up,"
        " held, created_at)": (
            *(1, "call", "reminder"),
            *(cipher.seal("{}", "job.template", "call", "telegram:1", "reminder"), "telegram:1"),
            *("telegram", "bot", "1", "at 5", "UTC", "once", 1, 0),
        ),
        "slot (job, at, fired_at, state)": (1, 5, 6.5, "begun"),
        "change (step, n, session, turn_id, call_id, tool, standing, entry, made_at)": (
            *(1, 0, "s", 1, "c", "write_file", "undone"),
            *(cipher.seal(json.dumps(entry), "change.entry", 1, 0), 7),
        ),
        "summary (session, upto, content, told, created_at)": ("s", 0, "{}", 1, 0),
        "inbox (channel, account, event_id, lane, principal, payload, received_at, held)": (
            *(*said_at, "telegram:bot:1", "telegram:1", "{}", 0, 1),
        ),
    }
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, values in rows.items():
            marks = ", ".join("?" for _ in values)
            connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)
        mark_sealed(SqliteTransaction(connection), cipher)
    connection = connect(path, check=True, cipher=cipher)
    tx = SqliteTransaction(connection, cipher)
    (allowed,) = grants.list_grants(tx)
    assert (allowed.title, allowed.folder, allowed.granted_at) == ("exec ls", "/w", 5)
    assert "Bob: hello" in (chats.take_group_context(tx, "telegram:bot:9") or "")
    assert chats.is_unreachable(tx, Route("telegram", "bot", "9"))
    assert chats.load_aliases(tx, "telegram") == {"-1": "-100"}
    assert '{"role": "user"}' in list(transcripts.lines(tx, "s"))
    assert members.guesses(tx, "telegram:2") == (4, 99)
    assert rewinding.done(tx, "k") == "fork"
    ((_, note),) = audit_outbox.waiting(tx, 9)
    assert isinstance(note, audit_outbox.AuditNote)
    assert note.what == "mode"
    assert jobs.timer_state(tx) == (True, 6.5)
    (step,) = file_changes.steps(tx, "s")
    assert (step.changes[0].path, step.changes[0].status) == (Path("a.txt"), "undone")
    assert (
        tx.one("SELECT is_announced FROM summary") == tx.one("SELECT is_postponed FROM job") == (1,)
    )
    assert pending_media.rows(tx) == [1]
    assert tx.one("SELECT count(*) FROM search_entry") == (1,)
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("DELETE FROM job")
    assert tx.one("SELECT count(*) FROM job_run") == (0,)
    connection.close()
    assert not {"standing", "overheard", "slot", "change", "note", "move"} & tables(path)


def test_rows_of_renamed_columns_keep_their_values(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    older(path, 71)
    message = chat_message("wake me", event_id="e1", message_id="7")
    key = ("chat", "bot", "e1")
    payload = message.to_json()
    rows: dict[str, Sequence[object]] = {
        "language (principal, heard, chosen)": ("chat:1", "de", "fr"),
        "session (id, principal, home, pruned, begun_by, created_at, last_active_at)": (
            *("s", "chat:1", "chat:bot:1", 3, 5, 0, 0),
        ),
        "turn (session, lane, state, progress, at_work, cut_off, suspended, created_at)": (
            *("s", "chat:bot:1", "running", 0, 1, 2, 1, 0),
        ),
        "inbox (channel, account, event_id, source_msg, lane, principal, payload, received_at,"
        " incomplete)": (*key, "7", "chat:bot:1", "chat:1", payload, 0, 1),
        "job (id, made_by, kind, template, principal, channel, account, chat, rule, zone, catch_up,"
        " urgent, own, postponed, created_at)": (
            *(1, "call", "reminder", payload, "chat:1", "chat", "bot", "1", "at 5", "UTC", "once"),
            *(1, 1, 1, 0),
        ),
        "pairing_attempt (principal, wrong, locked_until)": ("chat:2", 4, 99),
        "member (channel, account, sender, name, owner, approved_by, approved_at)": (
            *("chat", "bot", "1", "Ann", 1, "", 0),
        ),
    }
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, values in rows.items():
            marks = ", ".join("?" for _ in values)
            connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)
    connection = connect(path, check=True)
    tx = SqliteTransaction(connection)
    assert preferences.client_languages(tx) == [("chat:1", "de", "fr")]
    assert sessions.is_begun_by(tx, "s", 5)
    assert tx.one("SELECT home_lane, pruned_upto FROM session") == ("chat:bot:1", 3)
    assert tx.one("SELECT is_claimed, interruptions, is_suspended FROM turn") == (1, 2, 1)
    assert pending_media.rows(tx) == [1]
    assert members.guesses(tx, "chat:2") == (4, 99)
    (member,) = members.members(tx)
    assert member.owner
    job = jobs.find(tx, 1)
    assert job is not None
    assert (job.is_urgent, job.has_own_session, job.is_postponed) == (True, True, True)
    assert job.message.content == "wake me"
    connection.close()
