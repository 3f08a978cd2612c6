"""Lossless import and export of sessions as files."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from agent.security.taint.taint import BOTH, NOTHING
from agent.serialization import dumps
from gateway.core import transcript
from gateway.core.transcript import Transcript
from gateway.store.port import Transaction
from gateway.store.repositories.codecs import CONTENT, message_from_row
from gateway.store.repositories.conversations import choices, session_admin, session_marks, sessions
from gateway.store.repositories.conversations.session_admin import SessionOwner
from gateway.store.repositories.conversations.session_marks import SessionMarks

_ID = re.compile(r"\d{8}_\d{6}(_\d{1,6})?")
_META = -1
_LINE = "transcript_line.line"


def put(tx: Transaction, source: Transcript, owner: SessionOwner, now: float) -> str:
    """Create a session from a file; returns its id.

    The author of the file is unknown, so everything counts as untrusted and private, including
    words that it attributes to a person.
    """
    session = _create_session(tx, source.meta, owner, now)
    if source.title is not None:
        title = " ".join(source.title[: session_admin.MAX_NAME_CHARS].split())
        session_admin.rename(tx, session, title)
    if source.meta:
        _keep(tx, session, (_META, 0, 0), dumps(source.meta))
    n = after = 0
    for line in source.lines:
        messages = [replace(message, taint=BOTH) for message in line.messages]
        if messages:
            sessions.append_messages(tx, session, None, messages, line.at or now)
            if line.raw is not None:
                _keep(tx, session, (n + 1, 0, len(messages)), line.raw)
            n, after = n + len(messages), 0
        elif line.raw is not None:
            after += 1
            _keep(tx, session, (n, after, 0), line.raw)
    sessions.add_taint(tx, session, BOTH)
    created = transcript.seconds(source.meta.get("createdAt"))
    tx.run(
        "UPDATE session SET last_active_at = ?, created_at = coalesce(?, created_at) WHERE id = ?",
        (now, created, session),
    )
    return session


def lines(tx: Transaction, session: str) -> list[str]:
    """Return the whole session as JSON lines."""
    return list(_lines(tx, session))


def _lines(tx: Transaction, session: str) -> Iterator[str]:
    stored_lines = {
        (n, i): (covers, tx.unseal(line, _LINE, session, n, i))
        for n, i, covers, line in tx.all(
            "SELECT n, i, message_count, line FROM transcript_line WHERE session = ?", (session,)
        )
    }
    yield dumps(_meta(tx, session, stored_lines.get((_META, 0))))
    covered = 0
    rows = tx.all(
        f"SELECT created_at, {CONTENT} FROM message WHERE session = ? ORDER BY n", (session,)
    )
    yield from _behind(stored_lines, 0)
    for at, _, n, content in rows:
        covers, line = stored_lines.get((n, 0), (0, ""))
        if covers:
            covered = n + covers - 1
            yield line
        elif n > covered:
            yield transcript.kore_line(message_from_row(tx, session, n, content), at)
        yield from _behind(stored_lines, n)


def _behind(stored_lines: dict[tuple[int, int], tuple[int, str]], n: int) -> Iterator[str]:
    i = 1
    while (n, i) in stored_lines:
        yield stored_lines[n, i][1]
        i += 1


def _meta(tx: Transaction, session: str, stored_line: tuple[int, str] | None) -> dict[str, Any]:
    """Return the metadata of the file, updated with the current facts."""
    (info,) = sessions.recent(tx, 1, session=session)
    before = json.loads(stored_line[1]) if stored_line else {}
    own_meta = {
        "_type": "meta",
        "title": session_admin.name_of(tx, session) or info.name,
        "id": info.id,
        "gitRoot": None,
        "createdAt": transcript.moment(info.created_at),
    }
    if transcript.seconds(before.get("createdAt")) == info.created_at:
        own_meta["createdAt"] = before["createdAt"]
    if "gitRoot" in before:
        own_meta["gitRoot"] = before["gitRoot"]
    facts = {
        "taint": info.taint.split(",") if info.taint else None,
        "model": choices.load(tx, session).get(choices.MODEL),
        "parent": info.parent,
    }
    return {**before, **own_meta, **{name: value for name, value in facts.items() if value}}


def _create_session(tx: Transaction, meta: Any, owner: SessionOwner, now: float) -> str:
    """Create a session with the id in the file if it is free, otherwise with a new id."""
    requested_id = meta.get("id")
    session = sessions.create_session(tx, owner.principal, now)
    if not isinstance(requested_id, str) or not _ID.fullmatch(requested_id):
        return session
    existing_row = tx.first("SELECT 1 FROM session WHERE id = ?", (requested_id,))
    if existing_row is not None:
        return session
    tx.run("UPDATE session SET id = ? WHERE id = ?", (requested_id, session))
    sessions.put_name(tx, requested_id, "")
    session_marks.put(tx, requested_id, SessionMarks(owner.principal, None, NOTHING))
    return requested_id


def _keep(tx: Transaction, session: str, place: tuple[int, int, int], line: str) -> None:
    """Store a line; `place` is a message, the index after it and the count of covered messages."""
    n, i, covers = place
    tx.run(
        "INSERT INTO transcript_line (session, n, i, message_count, line) VALUES (?, ?, ?, ?, ?)",
        (session, n, i, covers, tx.seal(line, _LINE, session, n, i)),
    )
