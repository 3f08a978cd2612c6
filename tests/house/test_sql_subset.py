"""The repositories' SQL is valid for both SQLite and PostgreSQL."""

import re

import pytest

from tests.house.sql_arguments import GIVEN
from tests.house.statements import Statement, collect

_SQL = "gateway/store/repositories"
# Syntax that is specific to SQLite, with the portable alternative.
FORBIDDEN = {
    r"->": "a column instead of a field of JSON",
    r"\bjson\w*\(": "a column, or a list of values (conditions.one_of)",
    r"\bGLOB\b": "conditions.beginning, or substr(...) =",
    r"\bINSERT OR\b|\bREPLACE INTO\b": "ON CONFLICT",
    r"\b(AND|OR|WHEN|NOT|WHERE) \? *(AND|OR|THEN|\)|$)|\(\? (AND|OR)\b": (
        "? = 1: a number is no condition"
    ),
    r"\bON CONFLICT DO UPDATE\b": "ON CONFLICT (its columns) DO UPDATE",
    r"\bPRAGMA\b": "nothing of the kind in a repository",
    r"\b(ifnull|iif|strftime|unixepoch|char|printf|total_changes|typeof|instr|group_concat)\(": (
        "coalesce, CASE, a value made in Python"
    ),
    r"\b(min|max)\([^()]+,": "CASE: only an aggregate is called so",
    r"\bIS (NOT )?(\?|''|excluded\b|[a-z_]+\.)": "= or <>, and IS NULL",
    r"(?<![\w:]):[a-z_]+": "? for every value",
    r"[(,= ]\+[a-z_]+\b": "no sign in front of a text",
    r"\b(un)?seal\(": "Transaction.seal and unseal, in Python",
    r"\bMATCH\b|\b(bm25|snippet|highlight)\(": "Transaction.search",
    r"\browid\b|\btemp\.|\bsqlite_": "a key of the table's own",
    r"\b(WHERE|AND|OR|NOT|WHEN|ON) \(*(\w+\.)?"
    r"((is|has)_\w+|stop_requested|preview_lost|maybe_duplicate)\b(?! *(=|<>))": (
        "flag = 1: a number is no condition"
    ),
}
# The full-text match is in each engine's own syntax: a portable statement replaces it here.
_SEARCH = f"{_SQL}/conversations/search.py"
_GIVEN = {**GIVEN, _SEARCH: {**GIVEN[_SEARCH], "matches": ["SELECT n AS id FROM message"]}}


def foreign(sql: str) -> list[str]:
    """Return the forbidden patterns in a statement, ignoring its string literals."""
    bare = re.sub(r"'[^']*'", "''", sql)
    return [pattern for pattern in FORBIDDEN if re.search(pattern, bare)]


def _own() -> list[Statement]:
    return [item for item in collect(_GIVEN) if item.site.startswith(f"{_SQL}/")]


def test_repositories_use_only_shared_sql() -> None:
    texts = [
        f"{item.place}: {FORBIDDEN[pattern]}: {item.sql}"
        for item in _own()
        for pattern in foreign(item.sql)
    ]
    assert texts == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT data ->> '$.a' FROM session",
        "SELECT value FROM json_each(?)",
        "SELECT id FROM session WHERE id GLOB ?",
        "INSERT OR IGNORE INTO session (id) VALUES (?)",
        "INSERT INTO meta (name) VALUES (?) ON CONFLICT DO UPDATE SET name = excluded.name",
        "PRAGMA defer_foreign_keys=ON",
        "SELECT ifnull(name, '') FROM session",
        "UPDATE session SET head = max(head, ?)",
        "SELECT id FROM session WHERE parent IS ?",
        "SELECT id FROM session WHERE id = :id",
        "SELECT id FROM inbox WHERE +principal = ?",
        "DELETE FROM temp.gone",
        "UPDATE session SET name = seal(?, 'session.name', id)",
        "SELECT n FROM message WHERE content MATCH ? ORDER BY bm25(message)",
        "SELECT rowid FROM message",
        "SELECT id FROM turn WHERE (? OR id = 1)",
        "SELECT CASE WHEN ? THEN 1 ELSE 0 END",
        "SELECT id FROM turn WHERE id = ? AND NOT is_suspended",
        "SELECT id FROM task WHERE (task.is_background OR id = 1)",
    ],
)
def test_unshared_sql_is_noticed(sql: str) -> None:
    assert foreign(sql)


def test_shared_sql_is_accepted() -> None:
    assert not foreign(
        "INSERT INTO session (id) SELECT max(n) FROM message WHERE text = 'a:b GLOB ->' AND"
        " session IS NOT NULL AND is_shown = 1 AND (stop_requested = 0) ON CONFLICT"
        " (id) DO UPDATE SET id = excluded.id RETURNING id"
    )
