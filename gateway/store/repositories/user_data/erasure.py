"""Deletion of a person's data from the database.

Private data are deleted: conversations that the person had in private, with all their forks and
sub-agent tasks. From shared conversations (groups), messages to and by the person are removed;
other messages stay. Rows that must stay, so that a deleted message is not accepted again, contain
none of the person's words.
"""

import hashlib
import json
from collections.abc import Sequence

from agent.records import frozen
from agent.types import Message, Text
from gateway.core.messages import CONSOLE
from gateway.store.conditions import LIVE, literal
from gateway.store.port import Transaction
from gateway.store.repositories import goals
from gateway.store.repositories.codecs import NO_PAYLOAD, put_payload
from gateway.store.repositories.conversations import search, sessions
from gateway.store.repositories.delivery.chats import PRESENCE
from gateway.store.repositories.delivery.outbox import PAIRING
from gateway.store.repositories.file_changes import PAGE

DELETED = "deleted"
GONE = "(deleted at the request of its author)"
# Every table is in one of these sets; a test fails for a table that is in neither.
PERSONAL = frozenset(
    {
        *(
            "inbox",
            "session",
            "binding",
            "session_choice",
            "goal",
            "turn",
            "message",
            "step",
            "outbox",
            "approval",
            "permission_grant",
        ),
        *(
            "member",
            "pairing",
            "pairing_attempt",
            "usage",
            "limit_notice",
            "audit_outbox",
            "file_change",
            "undo_operation",
        ),
        *(
            "summary",
            "search_entry",
            "embedding",
            "words",
            "transcript_line",
            "task",
            "group_context",
            "chat_membership",
        ),
        *("language", "job", "job_run", "chat_clock", "api_answer"),
    }
)
IMPERSONAL = frozenset({"cursor", "meta", "migration", "chat_alias"})
_SESSIONS = "SELECT id FROM gone_session"
_TURNS = "SELECT id FROM gone_turn"
_SHARED = "SELECT id FROM shared_turn"
_LANES = "SELECT lane FROM gone_lane"


@frozen
class UserDataSummary:
    """Amount of a person's data. `busy`: an answer to them is in progress."""

    sessions: int
    messages: int
    shared_turns: int
    inbox: int
    outbox: int
    calls: int
    jobs: int
    api_answers: int
    busy: bool

    @property
    def has_data(self) -> bool:
        return any(
            (
                *(self.sessions, self.shared_turns, self.inbox, self.outbox),
                *(self.calls, self.jobs, self.api_answers),
            )
        )


def select_user_rows(tx: Transaction, principal: str) -> None:
    """Select a person's sessions, turns and lanes into temporary tables of this connection."""
    is_console = principal.startswith(f"{CONSOLE}:")
    for name, column in (
        ("gone_session", "id TEXT"),
        ("gone_turn", "id BIGINT"),
        ("shared_turn", "id BIGINT"),
        ("gone_lane", "lane TEXT"),
    ):
        tx.run(f"CREATE TEMP TABLE IF NOT EXISTS {name} ({column} PRIMARY KEY)")
        tx.run(f"DELETE FROM {name}")
    private = "(channel || ':' || account || substr(principal, length(channel) + 1) || ':')"
    # In a private chat, chat and person have the same id; a terminal belongs to the owner.
    tx.run(
        "INSERT INTO gone_lane SELECT DISTINCT lane FROM inbox WHERE principal = ? AND (? = 1 OR"
        f" substr(lane || ':', 1, length({private})) = {private})",
        (principal, is_console),
    )
    _close(
        tx,
        f"SELECT id FROM session WHERE principal = ? AND (home_lane IN ({_LANES}) OR"
        " home_lane = '' OR ? = 1)",
        (principal, is_console),
    )
    tx.run(
        "INSERT INTO shared_turn SELECT DISTINCT i.turn_id FROM inbox i JOIN turn t"
        f" ON t.id = i.turn_id WHERE i.principal = ? AND t.session NOT IN ({_SESSIONS})",
        (principal,),
    )
    # Sub-agents that were started for them in a group.
    _close(
        tx,
        f"SELECT session FROM task WHERE turn_id IN ({_SHARED}) OR root_turn IN ({_SHARED})",
    )
    tx.run(
        f"INSERT INTO gone_turn SELECT id FROM turn WHERE session IN ({_SESSIONS})"
        f" OR (session IS NULL AND (lane IN ({_LANES})"
        " OR id IN (SELECT turn_id FROM inbox WHERE principal = ?)))",
        (principal,),
    )


def _close(tx: Transaction, begin: str, values: Sequence[object] = ()) -> None:
    """Select these sessions, their forks, and all of their sub-agent tasks."""
    tx.run(
        "INSERT INTO gone_session WITH RECURSIVE link(parent, child) AS ("
        "SELECT parent, id FROM session WHERE parent IS NOT NULL"
        " UNION SELECT caller, session FROM task),"
        f" theirs(id) AS ({begin}"
        " UNION SELECT link.child FROM link JOIN theirs ON link.parent = theirs.id)"
        " SELECT id FROM theirs WHERE TRUE ON CONFLICT DO NOTHING",
        values,
    )


def traces(tx: Transaction, principal: str) -> UserDataSummary:
    """Return a summary of the data that would be deleted."""
    select_user_rows(tx, principal)

    def count(query: str, *values: object) -> int:
        return int(tx.one(f"SELECT count(*) FROM {query}", values)[0])

    live = f"turn WHERE {LIVE} AND (id IN ({_TURNS}) OR id IN ({_SHARED}))"
    return UserDataSummary(
        sessions=count("gone_session"),
        messages=count(
            f"message WHERE session IN ({_SESSIONS}) OR turn_id IN ({_SHARED})",
        ),
        shared_turns=count("shared_turn"),
        inbox=count("inbox WHERE principal = ?", principal),
        outbox=count(f"outbox WHERE {_OUTBOX}"),
        calls=count("usage WHERE principal = ?", principal),
        jobs=count("job WHERE principal = ?", principal),
        api_answers=count("api_answer WHERE principal = ?", principal),
        busy=count(live) > 0,
    )


_OUTBOX = f"turn_id IN ({_TURNS}) OR turn_id IN ({_SHARED}) OR lane IN ({_LANES})"


def erase(tx: Transaction, principal: str, now: float) -> list[str]:
    """Delete all data of `principal` and return the ids of the sessions that changed.

    Free pages of the file still contain the data until the store is rewritten.
    """
    select_user_rows(tx, principal)
    channel, _, sender = principal.partition(":")
    _blank_shared(tx)
    turns = f"({_TURNS} UNION {_SHARED})"
    places = ("caller", "root_session", "session")
    tasks = " OR ".join(f"{place} IN ({_SESSIONS})" for place in places)
    condition = f"session IN ({_SESSIONS}) OR turn_id IN {turns}"
    gone_payloads = tx.all(
        f"SELECT seq FROM inbox WHERE principal = ? OR lane IN ({_LANES}) OR turn_id IN ({_TURNS})",
        (principal,),
    )
    if channel == CONSOLE:
        tx.run("DELETE FROM file_change WHERE session LIKE ?", (f"{PAGE}%",))
        tx.run("DELETE FROM undo_operation WHERE session LIKE ?", (f"{PAGE}%",))
    # Delete referencing rows before the rows that they reference.
    for statement in (
        "DELETE FROM outbox WHERE EXISTS (SELECT 1 FROM approval a WHERE"
        " (outbox.delivery_id = 'q' || a.id OR outbox.delivery_id LIKE 'q' || a.id || '.%')"
        f" AND (a.session IN ({_SESSIONS}) OR a.turn_id IN {turns}))",
        f"DELETE FROM approval WHERE {condition}",
        f"DELETE FROM task WHERE {tasks} OR turn_id IN {turns} OR root_turn IN {turns}",
        f"DELETE FROM step WHERE turn_id IN {turns}",
        f"DELETE FROM file_change WHERE turn_id IN {turns}",
        f"DELETE FROM outbox WHERE {_OUTBOX}",
        "DELETE FROM outbox WHERE EXISTS (SELECT 1 FROM job WHERE principal = ? AND"
        " substr(outbox.delivery_id, 1, length('cron:' || job.id || ':')) ="
        " 'cron:' || job.id || ':')",
        "DELETE FROM job_run WHERE job IN (SELECT id FROM job WHERE principal = ?)",
        "DELETE FROM job WHERE principal = ?",
        f"DELETE FROM chat_clock WHERE chat IN ({_LANES})",
        "DELETE FROM goal WHERE principal = ?",
        "UPDATE inbox SET principal = '', lane = '', source_message_id = NULL, album = NULL,"
        f" turn_id = NULL, is_incomplete = 0, is_undecoded = 0, dead_reason = '{DELETED}'"
        f" WHERE principal = ? OR lane IN ({_LANES}) OR turn_id IN ({_TURNS})",
        f"DELETE FROM group_context WHERE lane IN ({_LANES}) OR lane IN"
        f" (SELECT lane FROM turn WHERE id IN ({_SHARED}))",
        f"DELETE FROM binding WHERE lane IN ({_LANES}) OR session IN ({_SESSIONS})",
        *(
            f"DELETE FROM {table} WHERE session IN ({_SESSIONS})"
            for table in (
                "session_choice",
                "goal",
                "message",
                "transcript_line",
                "summary",
                "file_change",
                "undo_operation",
                "audit_outbox",
                "usage_reservation",
            )
        ),
        f"UPDATE usage SET principal = '{DELETED}', lane = '{DELETED}', chat = '{DELETED}'"
        f" WHERE principal = ? OR session IN ({_SESSIONS})",
        f"DELETE FROM limit_notice WHERE scope IN ({_SESSIONS}) OR scope IN ({_LANES})"
        f" OR scope IN (SELECT CAST(id AS TEXT) FROM gone_turn)",
        # Costs remain, and belong to a turn.
        f"UPDATE turn SET session = NULL, lane = '{DELETED}', state = 'done'"
        f" WHERE id IN ({_TURNS})",
        f"DELETE FROM session WHERE id IN ({_SESSIONS})",
        "DELETE FROM permission_grant WHERE principal = ? OR granted_by = ?",
        "DELETE FROM pairing_attempt WHERE principal = ?",
        "DELETE FROM language WHERE principal = ?",
        "DELETE FROM api_answer WHERE principal = ?",
    ):
        tx.run(statement, [principal] * statement.count("?"))
    for (seq,) in gone_payloads:
        put_payload(tx, seq, NO_PAYLOAD)
    for table in ("member", "pairing"):
        tx.run(f"DELETE FROM {table} WHERE channel = ? AND sender = ?", (channel, sender))
    tx.run("DELETE FROM chat_membership WHERE channel = ? AND chat = ?", (channel, sender))
    # Notices to the owner about them.
    for kind in (PAIRING, PRESENCE):
        tx.run(
            "DELETE FROM outbox WHERE delivery_id LIKE ? ESCAPE '\\'",
            (f"{kind}{literal(channel)}:%:{literal(sender)}:%",),
        )
    tx.run(
        "DELETE FROM outbox WHERE delivery_id LIKE ? ESCAPE '\\'",
        (f"{goals.NOTICE}{literal(principal)}:%",),
    )
    # The index contains words of deleted rows; the next search indexes the remaining messages
    # again.
    search.forget_all(tx)
    tx.run(
        "INSERT INTO audit_outbox (at, what, reason, is_allowed, session, params)"
        " VALUES (?, 'user.delete', 'asked for at the machine', 1, '', ?)",
        (now, json.dumps({"sha256": hashlib.sha256(principal.encode()).hexdigest()})),
    )
    shared = "SELECT DISTINCT session FROM turn WHERE session IS NOT NULL AND"
    changed = tx.all(f"{shared} id IN ({_SHARED})")
    deleted = tx.all(_SESSIONS)
    return [session for (session,) in (*changed, *deleted)]


def _blank_shared(tx: Transaction) -> None:
    """Blank a person's turns in conversations with others.

    Each turn has one question and one answer left, both without words; a summary that may cover it
    is deleted.
    """
    rows = tx.all(
        "WITH RECURSIVE told(session, n, role, turn) AS ("
        f" SELECT session, n, role, turn_id FROM message WHERE turn_id IN ({_SHARED})"
        # A fork has copies of them with the same numbers.
        " UNION SELECT s.id, told.n, told.role, told.turn FROM session s JOIN told"
        "  ON s.parent = told.session AND (s.parent_n IS NULL OR told.n <= s.parent_n))"
        " SELECT session, n, role, turn FROM told ORDER BY session, n"
    )
    answered: set[tuple[str, int]] = set()
    for session, n, role, turn in rows:
        if role != "user" and (session, turn) in answered:
            tx.run("DELETE FROM message WHERE session = ? AND n = ?", (session, n))
            continue
        if role != "user":
            answered.add((session, turn))
        blank = Message("user" if role == "user" else "assistant", (Text(GONE),))
        sessions.put_message(tx, session, n, blank)
    for session in {row[0] for row in rows}:
        first = min(row[1] for row in rows if row[0] == session)
        tx.run("DELETE FROM summary WHERE session = ? AND upto >= ?", (session, first))
