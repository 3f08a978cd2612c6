"""Classification of database errors that justify a retry."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent.i18n import use_locale_once
from gateway.store.errors import StoreBusy, StoreCorrupt
from gateway.store.sqlite.engine import mapped_error


def refusal(connection: sqlite3.Connection, sql: str) -> sqlite3.Error:
    with pytest.raises(sqlite3.Error) as caught:
        connection.execute(sql)
    return caught.value


def test_lock_is_temporary(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as first, closing(sqlite3.connect(path, timeout=0)) as late:
        first.execute("BEGIN EXCLUSIVE")
        assert isinstance(mapped_error(refusal(late, "CREATE TABLE a (b)")), StoreBusy)


def test_full_disk_is_temporary() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE a (b)")
        connection.execute("PRAGMA max_page_count=2")
        full = mapped_error(refusal(connection, "INSERT INTO a VALUES (zeroblob(100000))"))
        assert isinstance(full, StoreBusy)
        assert "the disk is full" in str(full)


@pytest.mark.parametrize("sql", ["SELECT full FROM locked", "SELECT 1; SELECT 2"])
def test_invalid_query_is_permanent(sql: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        refused = mapped_error(refusal(connection, sql))
        assert not isinstance(refused, StoreBusy)
        assert str(refused).startswith("the database returned an error: ")


def test_damaged_file_is_reported_with_a_hint_about_backups(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"this is no database" * 1000)
    with closing(sqlite3.connect(path)) as connection:
        damaged = mapped_error(refusal(connection, "SELECT * FROM sqlite_master"), path)
    assert isinstance(damaged, StoreCorrupt)
    assert f"the database {path} is damaged" in str(damaged)
    assert "kore restore FILE" in (damaged.hint or "")


def test_store_error_is_translated_when_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    damaged = StoreCorrupt(path, "no header")
    assert str(damaged) == f"the database {path} is damaged: no header"
    with use_locale_once("zh-Hans"):
        assert str(damaged) == f"数据库 {path} 已损坏：no header"
        assert "kore restore 文件" in (damaged.hint or "")
