import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gateway.store.errors import StoreError
from gateway.store.schema import Schema
from gateway.store.sqlite.engine import connect
from gateway.store.sqlite.migrator import MAX_COPIES, SCHEMA, copies, keep_copy, upgrade
from tests.gateway.store.later_schema import later_schema

KILLED_UPGRADE = """
import os, signal, sqlite3, sys
from pathlib import Path
from gateway.store.schema import Schema
from gateway.store.sqlite.migrator import upgrade
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
left = int(sys.argv[3])
def step():
    global left
    left -= 1
    if left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return 0
connection.set_progress_handler(step, 10)
upgrade(connection, Path(sys.argv[1]), Schema(Path(sys.argv[2])))
left = 1
step()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kore.db"


@pytest.fixture
def later(tmp_path: Path) -> Schema:
    return later_schema(SCHEMA, tmp_path / "later")


def create(path: Path) -> None:
    """Create a database with the current schema and one row."""
    connect(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "INSERT INTO cursor (channel, account, name, value, seen_at)"
            " VALUES ('telegram', '', 'offset', '42', 0)"
        )


def upgrade_file(path: Path, schema: Schema) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        upgrade(connection, path, schema)


def offset(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT value FROM cursor").fetchone()[0])


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}


def numbers(path: Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [n for (n,) in connection.execute("SELECT number FROM migration ORDER BY number")]


def test_upgrade_keeps_a_copy_of_the_database(path: Path, later: Schema) -> None:
    create(path)
    upgrade_file(path, later)
    (copy,) = copies(path)
    assert offset(path) == 42
    assert offset(copy) == 42
    assert "later" in tables(path)
    assert "later" not in tables(copy)
    assert copy.stat().st_mode & 0o777 == 0o600


def test_new_or_current_database_is_not_copied(path: Path) -> None:
    connect(path).close()
    connect(path).close()
    assert not path.with_name("backups").exists()


def test_kill_while_a_database_is_created_leaves_no_tables(path: Path) -> None:
    killed_upgrade(path, SCHEMA, 40)
    assert tables(path) == set()
    connect(path, check=True).close()
    assert numbers(path) == sorted(SCHEMA.numbers)
    assert not path.with_name("backups").exists()


@pytest.mark.parametrize("steps", [1, 40, 200, 800, 100_000])
def test_killed_upgrade_is_done_by_the_next_start(path: Path, later: Schema, steps: int) -> None:
    create(path)
    killed_upgrade(path, later, steps)
    upgrade_file(path, later)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert offset(path) == 42
    assert numbers(path) == sorted(later.numbers)
    assert os.listdir(path.with_name("backups"))


def killed_upgrade(path: Path, schema: Schema, steps: int) -> None:
    """Upgrade in a process that is killed after `steps` steps of SQLite or at the end."""
    words = [sys.executable, "-c", KILLED_UPGRADE, path, schema.folder, str(steps)]
    died = subprocess.run(words, check=False)
    assert died.returncode == -signal.SIGKILL


def test_upgrade_changes_nothing_without_room_for_the_copy(path: Path, later: Schema) -> None:
    create(path)
    path.with_name("backups").write_text("a file in the way")
    with pytest.raises(StoreError, match="it could not be backed up first"):
        upgrade_file(path, later)
    assert "later" not in tables(path)
    assert offset(path) == 42


def test_only_the_newest_copies_are_kept(path: Path) -> None:
    create(path)
    folder = path.with_name("backups")
    folder.mkdir()
    for day in range(1, 7):
        (folder / f"before-upgrade-2020010{day}-000000.db").touch()
    (folder / "before-upgrade-20200101-000000.part").touch()
    with closing(sqlite3.connect(path)) as connection:
        newest = keep_copy(connection, path)
    assert len(copies(path)) == MAX_COPIES
    assert copies(path)[-1] == newest
    assert not list(folder.glob("*.part"))


def test_database_of_another_program_is_rejected_and_unchanged(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE book (id INTEGER)")
    content = path.read_bytes()
    with pytest.raises(StoreError, match="tables of another program"):
        connect(path)
    assert path.read_bytes() == content
    assert not path.with_name("backups").exists()


def test_database_of_the_first_versions_is_too_old(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE inbox (seq INTEGER PRIMARY KEY)")
        connection.execute("PRAGMA user_version=9")
    with pytest.raises(StoreError, match="schema 9; this version supports schema 83"):
        connect(path)


def test_newer_user_version_is_a_newer_database(path: Path) -> None:
    create(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=4321")
    with pytest.raises(StoreError, match="newer Kore"):
        connect(path)
