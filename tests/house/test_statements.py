"""No statement scans a table that grows, according to its EXPLAIN QUERY PLAN."""

import ast
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest

from gateway.store.repositories.user_data import erasure
from gateway.store.sqlite.engine import connect
from gateway.store.sqlite.transaction import SqliteTransaction
from tests.house.sql_arguments import GIVEN, SQL
from tests.house.statements import Statement, Unreadable, collect, texts_of
from tests.house.tree import ROOT, parse, python_files, statements

# Tables that stay small, however long Kore runs; all other tables grow.
SMALL = {
    "chat_clock": "a row for a chat that has chosen a zone or quiet hours",
    "cursor": "a row for a position that a channel stores",
    "embedding": "a cache of at most 20,000 rows",
    "pairing_attempt": "a row for somebody who guesses codes",
    "job": "jobs of a person are limited; what is over goes after a week",
    "language": "a row for a person",
    "member": "a row for a person",
    "meta": "facts about the database",
    "migration": "a row for a migration",
    "chat_alias": "a row for a group that has become a supergroup",
    "audit_outbox": "emptied into the audit log at once",
    "pairing": "requests, which expire",
    "usage_reservation": "a row for a call of a model under way",
    "permission_grant": "a row for what a person has allowed for good",
    "chat_membership": "a row for a group or a person who blocks the bot",
    "sqlite_sequence": "a row for a table whose numbers are never given again",
}
# Indexes of the few rows that are live, and of rows limited to a fixed number.
SMALL_INDEXES = {
    "approval_open",
    "goal_active",
    "inbox_denied",
    "inbox_early",
    "inbox_incomplete",
    "inbox_undecoded",
    "inbox_waiting",
    "outbox_streaming",
    "outbox_waiting",
    "task_running",
    "turn_live_lane",
    "turn_live_session",
}
# A search only by these columns reads as many rows as a scan.
UNSELECTIVE = {"account", "channel", "kind", "principal", "role", "state"}

BY_HAND = "asked for at the machine, seldom, and about everything that there is"
_WITH_SQL = f"{SQL}/", "gateway/store/sqlite/", "gateway/store/sealing.py"
MAY_SCAN = {
    f"{SQL}/file_changes.py:entries": BY_HAND,
    f"{SQL}/user_data/erasure.py": BY_HAND,
    f"{SQL}/user_data/export.py": BY_HAND,
    "gateway/store/sqlite/backup.py:read_back": BY_HAND,
    "gateway/store/sqlite/rekey.py:_reseal": BY_HAND,
    f"{SQL}/conversations/sessions.py:recent": "the newest, along their index, up to the limit",
    f"{SQL}/conversations/session_folders.py:used": "the newest, along their index",
    f"{SQL}/conversations/session_folders.py:read_from_messages": "once, after an upgrade",
    f"{SQL}/conversations/sessions.py:last_of": "one person's, newest first, up to an open one",
    f"{SQL}/conversations/session_admin.py:_name_of_copy": "a fork: the names of a person's",
    f"{SQL}/conversations/sessions.py:ids_with_prefix": "/resume NAME: one person's conversations",
    f"{SQL}/conversations/search.py:newest": "the newest, along their index, up to the limit",
    f"{SQL}/conversations/search.py:_find_by_name": "a search: the names of conversations",
    f"{SQL}/jobs.py:timer_state": "once, at the start; a job keeps a hundred slots",
    "gateway/store/sealing.py:_is_empty": "whether there is any row",
}


_PLANNED = re.compile(r"\s*(SELECT|WITH|INSERT|UPDATE|DELETE|REPLACE)\b")
_STEP = re.compile(r"(SCAN|SEARCH) (\S+)(?:.* INDEX (\w+))?")
_BOUND = re.compile(r"(\w+)\)?(?:=|>|<)")
_ALIAS = re.compile(r"\b(?:FROM|JOIN|,|INTO|UPDATE)\s+(\w+)(?:\s+AS)?\s+(\w+)\b", re.I)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(tmp_path / "kore.db")) as connection:
        # This creates temporary tables that statements refer to.
        erasure.select_user_rows(SqliteTransaction(connection), "telegram:1")
        yield connection


def scans(connection: sqlite3.Connection, sql: str) -> list[str]:
    """Return the steps of the statement's plan that scan a table that grows."""
    values = ["a"] * sql.count("?")
    tables = _tables(connection)
    aliases = {alias: table for table, alias in _ALIAS.findall(sql) if table in tables}
    results = []
    for *_, step in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values):
        match = _STEP.match(step)
        if match is None or "VIRTUAL TABLE" in step:
            continue
        way, name, index = match.groups()
        table = aliases.get(name, name)
        if table not in tables - SMALL.keys() or index in SMALL_INDEXES:
            continue
        bound = set(_BOUND.findall(step.partition(" (")[2]))
        ordered = way == "SEARCH" and not bound and re.search(r"\b(max|min)\((n|step|seq)\)", sql)
        if not ordered and bound <= UNSELECTIVE:
            results.append(step)
    return results


def _tables(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
    return {name for (name,) in rows}


def _is_allowed(statement: Statement) -> bool:
    return bool({statement.site, statement.site.partition(":")[0]} & MAY_SCAN.keys())


@cache
def _all() -> tuple[Statement, ...]:
    return tuple(collect(GIVEN))


def test_no_statement_scans_a_growing_table(database: sqlite3.Connection) -> None:
    texts = [
        f"{statement.place}: {step}: {statement.sql}"
        for statement in _all()
        if _PLANNED.match(statement.sql) and not _is_allowed(statement)
        for step in scans(database, statement.sql)
    ]
    assert texts == []


def test_listed_exceptions_are_needed(database: sqlite3.Connection) -> None:
    scanning = {
        name
        for statement in _all()
        if _PLANNED.match(statement.sql) and scans(database, statement.sql)
        for name in (statement.site, statement.site.partition(":")[0])
    }
    assert MAY_SCAN.keys() - scanning == set()
    assert SMALL.keys() - _tables(database) == set()


def test_statements_are_only_in_repositories_and_the_store() -> None:
    stray = [item.place for item in _all() if not item.site.startswith(_WITH_SQL)]
    assert stray == []


def test_only_its_own_package_uses_sqlite() -> None:
    knowing = {
        str(path.relative_to(ROOT))
        for path in python_files("agent", "gateway", "kore")
        for node in statements(parse(path))
        if (isinstance(node, ast.ImportFrom) and node.module == "sqlite3")
        or (isinstance(node, ast.Import) and any(item.name == "sqlite3" for item in node.names))
    }
    assert knowing
    assert all(file.startswith("gateway/store/sqlite/") for file in knowing), knowing


def test_tests_outside_the_store_contain_no_sql() -> None:
    """Other tests access rows through `tests.gateway.stored`, because tables may be renamed."""
    sql = re.compile(r"\s*(SELECT .+ FROM|INSERT INTO|UPDATE \w+ SET|DELETE FROM) ", re.DOTALL)
    own = (
        *("tests/gateway/store/", "tests/gateway/stored.py", "tests/house/", "tests/fakes/"),
        # Queries the connections of the server.
        "tests/gateway/fanout/buses.py",
    )
    stray = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in python_files("tests")
        if not str(path.relative_to(ROOT)).startswith(own)
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and sql.match(node.value)
    ]
    assert stray == []


def test_violations_of_the_statement_rules_are_noticed(database: sqlite3.Connection) -> None:
    assert scans(database, "SELECT id FROM turn WHERE lane = ? AND state = 'waiting'")
    assert scans(database, "SELECT 1 FROM inbox i WHERE i.channel = ? AND i.account = ?")
    assert scans(database, "UPDATE outbox SET state = 'dead' WHERE state = 'streaming' OR attempts")
    assert scans(database, "SELECT max(fired_at) FROM job_run")
    assert not scans(database, "SELECT max(n) FROM message WHERE session = ?")
    assert not scans(database, "SELECT sender FROM member")


def test_unreadable_statement_is_rejected() -> None:
    def read(body: str) -> set[str]:
        return texts_of(f"def f(c, given=None):\n {body}", {})

    assert read("c.execute('SELECT 1')") == {"SELECT 1"}
    assert read("x = '1' if given else '2'; c.execute(f'SELECT {x}')") == {"SELECT 1", "SELECT 2"}
    assert read("tx.all('SELECT 1', (given,))") == {"SELECT 1"}
    for body in (
        "c.execute(given)",
        "tx.one(given)",
        "run = tx.run",
        "c.execute(given.sql)",
        "run = c.execute",
        "c.cursor()",
    ):
        with pytest.raises(Unreadable):
            read(body)
