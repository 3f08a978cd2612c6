"""Administration of sessions: fork, rename, preview, pause and close."""

import re
from itertools import count as counted
from itertools import islice
from typing import Literal

from agent.records import frozen
from gateway.core.records import Excerpt, SessionPreview
from gateway.store.conditions import LIVE
from gateway.store.port import Transaction
from gateway.store.repositories.codecs import CONTENT, message_from_row
from gateway.store.repositories.conversations import (
    choices,
    session_folders,
    session_marks,
    sessions,
)
from gateway.store.repositories.conversations.session_marks import SessionMarks

Status = Literal["open", "paused", "closed"]
MAX_NAME_CHARS = 200
# Short enough that the number of a copy is visible in lists, which cut names.
_STEM_CHARS = 44
_NUMBERED = re.compile(r" \(\d+\)\Z")


@frozen
class SessionOwner:
    """Owner of a new session and the lane on which it begins ('': none)."""

    principal: str
    home: str = ""


def fork(
    tx: Transaction,
    session: str,
    owner: SessionOwner,
    now: float,
    *,
    last: int | None = None,
) -> str:
    """Create a session with the messages of this one up to `last`; returns its id.

    Without `last`, the running turn is excluded. The fork has the same model, mode and taint, and
    the next number in its name. Costs remain with the original session, and permissions "for this
    session" do not apply in the fork.
    """
    fork = sessions.create_session(tx, owner.principal, now)
    last = count_settled(tx, session) if last is None else last
    _copy_texts(tx, session, fork, last)
    if (file_views := sessions.file_views_of(tx, sessions.load_row(tx, session))) is not None:
        sessions.set_file_views(tx, fork, file_views)
    tx.run(
        "UPDATE session SET (name, choice_bits, head, pruned_upto, parent, parent_n, home_lane) ="
        " (SELECT ?, choice_bits, CASE WHEN head < ? THEN head ELSE ? END,"
        " CASE WHEN pruned_upto < ? THEN pruned_upto ELSE ? END, id, ?, ? FROM session WHERE"
        " id = ?)"
        " WHERE id = ?",
        (
            sessions.sealed_name(tx, fork, _name_of_copy(tx, session, owner.principal)),
            *(last, last, last, last, last, owner.home, session, fork),
        ),
    )
    choices.copy(tx, session, fork)
    session_folders.put(tx, fork, session_folders.of_session(tx, session))
    marks = session_marks.read(tx, session)
    session_marks.put(tx, fork, SessionMarks(owner.principal, marks.mode, marks.taint))
    return fork


def count_settled(tx: Transaction, session: str) -> int:
    """Return the number of messages before the running turn."""
    (count,) = tx.one(
        "SELECT coalesce((SELECT min(n) - 1 FROM message WHERE session = ? AND turn_id ="
        f" (SELECT id FROM turn WHERE session = ? AND {LIVE})),"
        " (SELECT max(n) FROM message WHERE session = ?), 0)",
        (session, session, session),
    )
    return int(count)


def _copy_texts(tx: Transaction, session: str, fork: str, last: int) -> None:
    """Copy messages, lines and summaries up to message `last`, each sealed for its new place."""

    def resealed(text: str, column: str, *place: int | str) -> str | None:
        return tx.seal(tx.unseal(text, column, session, *place), column, fork, *place)

    messages = tx.all(
        "SELECT n, role, created_at, content FROM message WHERE session = ? AND n <= ?",
        (session, last),
    )
    tx.many(
        "INSERT INTO message (session, n, role, created_at, content) VALUES (?, ?, ?, ?, ?)",
        [
            (fork, n, role, at, resealed(content, "message.content", n))
            for n, role, at, content in messages
        ],
    )
    lines = tx.all(
        "SELECT n, i, message_count, line FROM transcript_line WHERE session = ? AND n <= ?",
        (session, last),
    )
    tx.many(
        "INSERT INTO transcript_line (session, n, i, message_count, line) VALUES (?, ?, ?, ?, ?)",
        [
            (fork, n, i, covers, resealed(line, "transcript_line.line", n, i))
            for n, i, covers, line in lines
        ],
    )
    summaries = tx.all(
        "SELECT upto, request, taint, is_announced, created_at, content FROM summary"
        " WHERE session = ? AND upto <= ?",
        (session, last),
    )
    tx.many(
        "INSERT INTO summary (session, upto, request, taint, is_announced, created_at, content)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (fork, upto, request, taint, *facts, resealed(content, "summary.content", upto, taint))
            for upto, request, taint, *facts, content in summaries
        ],
    )


def _name_of_copy(tx: Transaction, session: str, principal: str) -> str:
    """Return the original's name with the first free number; '' for a session without words."""
    (info,) = sessions.recent(tx, 1, session=session)
    stem = _NUMBERED.sub("", name_of(tx, session) or info.name)
    if len(stem) > _STEM_CHARS:
        stem = f"{stem[: _STEM_CHARS - 1]}…"
    rows = tx.all("SELECT id, name FROM session WHERE principal = ?", (principal,))
    names = {sessions.opened_name(tx, id_, name) for id_, name in rows}
    return next(name for n in counted(2) if (name := f"{stem} ({n})") not in names) if stem else ""


def rename(tx: Transaction, session: str, line: str) -> None:
    """Set the name of a session, at most `MAX_NAME_CHARS` long; '' restores its automatic name."""
    sessions.put_name(tx, session, line)


def name_of(tx: Transaction, session: str) -> str:
    """Return the full name that was chosen for the session; '' without one."""
    (name,) = tx.one("SELECT name FROM session WHERE id = ?", (session,))
    return sessions.opened_name(tx, session, name)


def preview(tx: Transaction, session: str, first: int, last: int) -> SessionPreview:
    """Return the first and last texts of a session; the texts between them are not read."""
    (info,) = sessions.recent(tx, 1, session=session)
    beginning = _excerpts(tx, session, first, "ASC", 0)
    begun = beginning[-1][0] if beginning else 0
    end = _excerpts(tx, session, last, "DESC", begun)[::-1]
    return SessionPreview(
        info, *(tuple(excerpt for _, excerpt in part) for part in (beginning, end))
    )


def _excerpts(
    tx: Transaction, session: str, count: int, order: Literal["ASC", "DESC"], after: int
) -> list[tuple[int, Excerpt]]:
    rows = tx.all(
        f"SELECT role, {CONTENT} FROM message WHERE session = ? AND n > ?"
        f" AND role IN ('user', 'assistant') ORDER BY n {order}",
        (session, after),
    )
    texts = ((row[2], row[0], message_from_row(tx, *row[1:]).text) for row in rows)
    excerpts = ((n, Excerpt(role, text)) for n, role, text in texts if text.strip())
    return list(islice(excerpts, count))


def status_of(tx: Transaction, session: str) -> Status:
    (status,) = tx.one("SELECT status FROM session WHERE id = ?", (session,))
    return next(option for option in ("open", "paused", "closed") if option == status)


def is_at_work(tx: Transaction, session: str) -> bool:
    """Return whether a turn of this session runs, or waits for an answer."""
    (exists,) = tx.one(
        f"SELECT EXISTS (SELECT 1 FROM turn WHERE session = ? AND {LIVE})", (session,)
    )
    return bool(exists)


def set_status(tx: Transaction, session: str, status: Status) -> list[str]:
    """Set the status; returns the lanes in the session. No lane stays in a closed session."""
    tx.run("UPDATE session SET status = ? WHERE id = ?", (status, session))
    lanes = sessions.lanes_of(tx, session)
    if status == "closed":
        for lane in lanes:
            sessions.unbind(tx, lane)
    return lanes
