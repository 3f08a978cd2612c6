"""Repository for sessions: their messages, names, folders, and the session of each lane."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from agent.context.memory_snapshot import MemorySnapshot
from agent.records import frozen
from agent.security.taint.taint import BOTH
from agent.types import Message, Taint, Text
from gateway.core.messages import ONCE, QueueMode
from gateway.core.records import SessionInfo, SessionState
from gateway.store.conditions import beginning
from gateway.store.errors import SealBroken
from gateway.store.port import Row, Transaction
from gateway.store.repositories.codecs import CONTENT, content_of, message_from_row
from gateway.store.repositories.conversations import (
    choices,
    search,
    session_folders,
    session_marks,
)
from gateway.store.repositories.conversations.choices import StoredChoices
from gateway.store.repositories.conversations.search import Scope

# Number of sessions to read when looking for the last one with a known owner.
_LAST_ROWS = 5
_NAME = "session.name"
_MAX_TITLE_CHARS = 50
# Length of a title in characters, and number of messages that are read for it at a time.
_TITLE_FROM_CHARS = 200
_TITLE_ROWS = 5


def create_session(tx: Transaction, principal: str, now: float, *, lane: str | None = None) -> str:
    """Create a session named by its second (`20250218_001946`) and bind the lane to it."""
    stem = datetime.fromtimestamp(now).strftime("%Y%m%d_%H%M%S")
    rows = tx.all("SELECT id FROM session WHERE id >= ? AND id < ?", beginning(stem))
    ids = {id_ for (id_,) in rows}
    session, n = stem, 1
    while session in ids:
        n += 1
        session = f"{stem}_{n}"
    taint = session_marks.sealed_taint(tx, session, principal, None, "")
    tx.run(
        "INSERT INTO session (id, principal, home_lane, created_at, last_active_at, name, taint)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (session, principal, lane or "", now, now, sealed_name(tx, session, ""), taint),
    )
    if lane is not None:
        bind(tx, lane, session)
    return session


def bind(tx: Transaction, lane: str, session: str) -> None:
    tx.run(
        "INSERT INTO binding (lane, session) VALUES (?, ?)"
        " ON CONFLICT (lane) DO UPDATE SET session = excluded.session",
        (lane, session),
    )


def unbind(tx: Transaction, lane: str) -> None:
    """Remove the lane from its session, so that its next message begins a new one."""
    tx.run("DELETE FROM binding WHERE lane = ?", (lane,))


def bound_session(tx: Transaction, lane: str) -> str | None:
    row = tx.first("SELECT session FROM binding WHERE lane = ?", (lane,))
    return row[0] if row else None


def pin(tx: Transaction, session: str, worker: int | None) -> None:
    """Run the session's turns only in this process from now on; None means any process."""
    tx.run("UPDATE session SET worker = ? WHERE id = ?", (worker, session))


@frozen
class SessionRow:
    """Session with the fields needed for work on its messages.

    `last` is the number of the last message, `copied` the number of the last message that it was
    forked with. `bits` counts the information that choices have revealed to strangers since a
    person's last message. `has_background` is true while a sub-agent works for the session in the
    background.
    """

    id: str
    status: str
    choices: StoredChoices
    mode: str | None
    taint: frozenset[Taint]
    bits: float
    last: int
    copied: int
    has_background: bool
    # Sealed record of the files that it has seen.
    file_views: str | None
    # Process that runs background commands of the session, if several processes run turns.
    worker: int | None
    # Identity of the folder of its last turn.
    folder_identity: str | None


# Columns for `session_row`.
ROW_COLUMNS = (
    "session.id, session.status, session.principal, session.permission_mode, session.taint,"
    " session.choice_bits, session.file_views, session.worker, session.folder_identity,"
    " coalesce(session.parent_n, 0),"
    " (SELECT coalesce(max(n), 0) FROM message WHERE message.session = session.id),"
    " EXISTS (SELECT 1 FROM task WHERE task.caller = session.id AND is_background = 1"
    " AND task.state = 'running')"
)


def load_row(tx: Transaction, session: str) -> SessionRow:
    return session_row(tx, tx.one(f"SELECT {ROW_COLUMNS} FROM session WHERE id = ?", (session,)))


def session_row(tx: Transaction, row: Row) -> SessionRow:
    session, status, principal, mode, taint, bits, file_views, worker, identity, *counts = row
    copied, last, has_background = counts
    mode, taint_marks = session_marks.of_row(tx, session, principal, mode, taint)
    return SessionRow(
        id=session,
        status=status,
        choices=choices.load(tx, session),
        mode=mode,
        taint=taint_marks,
        bits=float(bits),
        last=last,
        copied=copied,
        has_background=bool(has_background),
        file_views=file_views,
        worker=worker,
        folder_identity=identity,
    )


def lanes_of(tx: Transaction, session: str) -> list[str]:
    """Return the lanes that are in this session."""
    rows = tx.all("SELECT lane FROM binding WHERE session = ?", (session,))
    return [lane for (lane,) in rows]


def is_in_use(tx: Transaction, session: str) -> bool:
    """Return whether a chat is in this session; one-shot runs do not return to it."""
    return any(not lane.startswith(ONCE) for lane in lanes_of(tx, session))


def last_of(tx: Transaction, principal: str, workspace: str | None = None) -> str | None:
    """Return the most recently used open session of a principal, in this workspace if given."""
    there, key = session_folders.in_workspace(workspace)
    rows = tx.all(
        "SELECT id, principal, permission_mode, taint FROM session"
        f" WHERE {there} AND principal = ? AND status <> 'closed'"
        " ORDER BY last_active_at DESC, id DESC LIMIT ?",
        (*key, principal, _LAST_ROWS),
    )
    return next((row[0] for row in rows if session_marks.opened(tx, *row) is not None), None)


def file_views_of(tx: Transaction, row: SessionRow) -> str | None:
    """Return the session's record of seen files, in the format of `FileViews`.

    See `agent.tools.file_views.FileViews`. None without a record, or for one that was changed
    outside of Kore.
    """
    if row.file_views is None:
        return None
    try:
        return str(tx.unseal(row.file_views, "session.file_views", row.id))
    except SealBroken:
        return None


def set_file_views(tx: Transaction, session: str, text: str) -> None:
    sealed = tx.seal(text, "session.file_views", session)
    tx.run("UPDATE session SET file_views = ? WHERE id = ?", (sealed, session))


def set_folder_identity(tx: Transaction, session: str, identity: str) -> None:
    tx.run("UPDATE session SET folder_identity = ? WHERE id = ?", (identity, session))


def forget_folder_identity(tx: Transaction, session: str) -> None:
    """Let the session work in a folder that Kore has created again."""
    tx.run("UPDATE session SET folder_identity = NULL WHERE id = ?", (session,))


def taint_of(tx: Transaction, session: str) -> frozenset[Taint]:
    """Return the taint of the session so far."""
    return session_marks.read(tx, session).taint


def status_of_lane(tx: Transaction, lane: str) -> str | None:
    row = tx.first(
        "SELECT status FROM session WHERE id = (SELECT session FROM binding WHERE lane = ?)",
        (lane,),
    )
    return row[0] if row else None


def add_taint(tx: Transaction, session: str, taint: frozenset[Taint]) -> None:
    marks = session_marks.read(tx, session)
    if not taint <= marks.taint:
        session_marks.put(tx, session, replace(marks, taint=marks.taint | taint))


def spend_bits(tx: Transaction, session: str, bits: float) -> float:
    """Count bits that choices have revealed to strangers.

    Returns the sum since a person's last message.
    """
    (spent,) = tx.one(
        "UPDATE session SET choice_bits = choice_bits + ? WHERE id = ? RETURNING choice_bits",
        (bits, session),
    )
    return float(spent)


def renew_bits(tx: Transaction, session: str) -> None:
    """Reset the count of bits, after a message of a person."""
    tx.run("UPDATE session SET choice_bits = 0 WHERE id = ?", (session,))


def exists(tx: Transaction, session: str) -> bool:
    return tx.first("SELECT 1 FROM session WHERE id = ?", (session,)) is not None


def chosen_mode(tx: Transaction, session: str) -> str | None:
    """Return the permission mode that was chosen for this session."""
    return session_marks.read(tx, session).mode


def choose_mode(tx: Transaction, session: str, mode: str) -> None:
    session_marks.put(tx, session, replace(session_marks.read(tx, session), mode=mode))


def is_begun_by(tx: Transaction, session: str, seq: int) -> bool:
    """Return whether the command in this inbox row began the session; false for a fork."""
    (by,) = tx.one("SELECT start_command FROM session WHERE id = ?", (session,))
    return bool(by == seq)


def note_begun_by(tx: Transaction, session: str, seq: int) -> None:
    tx.run("UPDATE session SET start_command = ? WHERE id = ?", (seq, session))


def chosen_queue_mode(tx: Transaction, session: str) -> QueueMode | None:
    """Return the chosen handling of messages that arrive while a turn runs in this session."""
    return choices.load(tx, session).get(choices.QUEUE)


def queue_mode_of_lane(tx: Transaction, lane: str) -> QueueMode | None:
    """Return the choice for the session of a lane, which may not have one yet."""
    session = bound_session(tx, lane)
    return None if session is None else chosen_queue_mode(tx, session)


def home_lane(tx: Transaction, session: str) -> str:
    (home,) = tx.one("SELECT home_lane FROM session WHERE id = ?", (session,))
    return str(home)


def append_messages(
    tx: Transaction,
    session: str,
    turn: int | None,
    messages: Sequence[Message],
    now: float,
    *,
    last: int | None = None,
) -> int:
    """Append messages; return the number of the last one.

    `last` is the number of the message before them, if known.
    """
    if last is None:
        last = count_messages(tx, session)
    tx.many(
        "INSERT INTO message (session, n, turn_id, role, content, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [
            (session, n, turn, message.role, content_of(tx, session, n, message), now)
            for n, message in enumerate(messages, start=last + 1)
        ],
    )
    search.enter(tx, session, enumerate(messages, start=last + 1))
    tx.run("UPDATE session SET last_active_at = ? WHERE id = ?", (now, session))
    return int(last) + len(messages)


def amend(tx: Transaction, session: str, turn: int, message: Message) -> None:
    """Extend the first message of a turn before the model has read it."""
    (n,) = tx.one("SELECT min(n) FROM message WHERE turn_id = ?", (turn,))
    put_message(tx, session, n, message)


def put_message(tx: Transaction, session: str, n: int, message: Message) -> None:
    """Replace a message."""
    tx.run(
        "UPDATE message SET role = ?, content = ? WHERE session = ? AND n = ?",
        (message.role, content_of(tx, session, n, message), session, n),
    )


def count_messages(tx: Transaction, session: str) -> int:
    # Numbers have no gaps, so the highest one is the count.
    (last,) = tx.one("SELECT coalesce(max(n), 0) FROM message WHERE session = ?", (session,))
    return int(last)


def is_untouched(tx: Transaction, session: str) -> bool:
    """Return whether the session has only the messages that it was forked with."""
    (last,) = tx.one("SELECT coalesce(parent_n, 0) FROM session WHERE id = ?", (session,))
    return count_messages(tx, session) == int(last)


def load_all(tx: Transaction, session: str) -> list[Message]:
    rows = tx.all(f"SELECT {CONTENT} FROM message WHERE session = ? ORDER BY n", (session,))
    return [message_from_row(tx, *row) for row in rows]


def load_after(
    tx: Transaction, session: str, n: int, limit: int
) -> list[tuple[int, float, Message]]:
    """Return the messages after number `n`, with their numbers and times."""
    rows = tx.all(
        f"SELECT created_at, {CONTENT} FROM message WHERE session = ? AND n > ? ORDER BY n LIMIT ?",
        (session, n, limit),
    )
    return [(row[1], created_at, message_from_row(tx, *row)) for created_at, *row in rows]


def ids_with_prefix(tx: Transaction, prefix: str, scope: Scope | None = None) -> list[str]:
    """Return the session with this id, or else up to two sessions whose ids begin with it."""
    where, values = (scope or Scope()).where()
    rows = tx.all(
        "SELECT s.id, s.principal, s.permission_mode, s.taint FROM session s"
        f" WHERE {where} AND s.id >= ? AND s.id < ? ORDER BY s.id LIMIT 2",
        (*values, *beginning(prefix)),
    )
    is_limited = scope is not None and scope.principal is not None
    ids = [row[0] for row in rows if not is_limited or session_marks.opened(tx, *row) is not None]
    return ids[:1] if prefix in ids else ids if prefix else []


def recent(
    tx: Transaction,
    limit: int,
    scope: Scope | None = None,
    *,
    session: str | None = None,
    workspace: str | None = None,
) -> list[SessionInfo]:
    """Return the most recent sessions, newest first, or a single session.

    A `workspace` limits them. The title of a session without a name is its first words.
    """
    where, values = (scope or Scope()).where()
    there, key = session_folders.in_workspace(workspace)
    # Sessions of sub-agents are shown only by id.
    which = "substr(s.principal, 1, 6) <> 'agent:'" if session is None else "s.id = ?"
    sessions = () if session is None else (session,)
    rows = tx.all(
        "SELECT s.id, s.name, EXISTS (SELECT 1 FROM turn t WHERE t.session = s.id"
        " AND t.state IN ('running', 'waiting')),"
        " (SELECT b.lane FROM binding b WHERE b.session = s.id LIMIT 1), s.principal,"
        " (SELECT coalesce(max(m.n), 0) FROM message m WHERE m.session = s.id), s.created_at,"
        " s.last_active_at, s.folder, s.taint, s.parent, s.status, s.permission_mode"
        f" FROM session s WHERE {where} AND {there} AND {which}"
        " ORDER BY s.last_active_at DESC, s.id DESC LIMIT ?",
        (*values, *key, *sessions, limit),
    )
    infos = []
    for row in rows:
        id_, name, running, lane, principal, count, created_at, used_at, folder, *decisive = row
        taint, parent, status, mode = decisive
        marks = session_marks.opened(tx, id_, principal, mode, taint)
        if marks is None and scope is not None and scope.principal is not None:
            # Its owner is unknown.
            continue
        marks = BOTH if marks is None else marks
        state = _state(status, running=bool(running))
        title = title_of(tx, id_, name)
        infos.append(
            SessionInfo(
                *(id_, title, state, lane, principal, count, created_at, used_at),
                taint=",".join(sorted(marks)),
                parent=parent,
                folder=session_folders.opened(tx, id_, folder),
            )
        )
    return infos


def _state(status: str, *, running: bool) -> SessionState:
    if running:
        return "running"
    return "paused" if status == "paused" else "closed" if status == "closed" else "idle"


def numbers_of(tx: Transaction, turn: int) -> list[int]:
    """Return the numbers of the messages that a turn has stored."""
    return [n for (n,) in tx.all("SELECT n FROM message WHERE turn_id = ?", (turn,))]


def load_memory(tx: Transaction, session: str) -> MemorySnapshot | None:
    """Return the snapshot; None if there is none or it was changed outside of Kore."""
    (sealed,) = tx.one("SELECT memory FROM session WHERE id = ?", (session,))
    if sealed is None:
        return None
    try:
        stored = json.loads(tx.unseal(sealed, "session.memory", session))
    except SealBroken:
        return None
    return MemorySnapshot(str(stored["file"]), str(stored["text"]))


def save_memory(tx: Transaction, session: str, file: str, text: str) -> None:
    """Store the snapshot of a session, replacing one of another memory file."""
    data = json.dumps({"file": file, "text": text}, ensure_ascii=False)
    tx.run(
        "UPDATE session SET memory = ? WHERE id = ?",
        (tx.seal(data, "session.memory", session), session),
    )


def sealed_name(tx: Transaction, session: str, name: str) -> str | None:
    """Return the column `name` of a row."""
    return tx.seal(name, _NAME, session)


def put_name(tx: Transaction, session: str, name: str) -> None:
    """Set the name of a session; '' means none."""
    tx.run("UPDATE session SET name = ? WHERE id = ?", (sealed_name(tx, session, name), session))


def opened_name(tx: Transaction, session: str, name: str) -> str:
    """Return the name in this column of a row; '' if there is none or it was changed outside of
    Kore.
    """
    try:
        return str(tx.unseal(name, _NAME, session))
    except SealBroken:
        return ""


def title_of(tx: Transaction, session: str, name: str) -> str:
    """Return the name, or the first words, as one short line."""
    line = " ".join((opened_name(tx, session, name) or _first_words(tx, session)).split())
    return line if len(line) <= _MAX_TITLE_CHARS else f"{line[: _MAX_TITLE_CHARS - 1]}…"


def _first_words(tx: Transaction, session: str) -> str:
    """Return the beginning of a person's first message that begins with text, or ''."""
    after = 0
    query = f"SELECT {CONTENT} FROM message WHERE session = ? AND role = 'user' AND n > ?"
    while rows := tx.all(f"{query} ORDER BY n LIMIT {_TITLE_ROWS}", (session, after)):
        for row in rows:
            if words := _opening_words(tx, row):
                return words
        after = rows[-1][1]
    return ""


def _opening_words(tx: Transaction, row: Row) -> str:
    """Return the beginning of a message; '' if it does not begin with text or was changed."""
    try:
        message = message_from_row(tx, *row)
    except SealBroken:
        return ""
    # A turn that joins several messages begins with an empty text.
    is_said = bool(message.content) and isinstance(message.content[0], Text)
    return message.text[:_TITLE_FROM_CHARS] if is_said else ""
