"""Working folders of sessions, as stated in messages from terminals and editors."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.core.messages import CONSOLE
from gateway.core.records import SessionInfo
from gateway.store.port import Transaction
from gateway.store.repositories.codecs import PAYLOAD, payload_from_row
from gateway.store.repositories.conversations import sessions

# Number of the newest sessions that are searched for sessions of one folder.
_MOST_SESSIONS = 1_000
_MOST_MESSAGES = 20
_PAYLOAD = ", ".join(f"i.{column}" for column in PAYLOAD.split(", "))


def list_sessions(tx: Transaction, limit: int, folder: str | None) -> list[SessionInfo]:
    """Return the most recent sessions with their folders; `folder` selects sessions by folder."""
    if folder is None:
        return [
            replace(session_info, folder=folder_of(tx, session_info.id))
            for session_info in sessions.recent(tx, limit)
        ]
    rows = tx.all(
        "SELECT id FROM session WHERE substr(principal, 1, 6) <> 'agent:'"
        " ORDER BY last_active_at DESC, id DESC LIMIT ?",
        (_MOST_SESSIONS,),
    )
    ids = (id_ for (id_,) in rows if folder_of(tx, id_) == folder)
    infos = (info for id_ in ids for info in sessions.recent(tx, 1, session=id_))
    return [replace(info, folder=folder) for info, _ in zip(infos, range(limit), strict=False)]


def folder_of(tx: Transaction, session: str) -> str:
    """Return the folder of the newest recent message from a terminal or an editor; '' without."""
    rows = tx.all(
        f"SELECT {_PAYLOAD} FROM turn t JOIN inbox i"
        " ON i.turn_id = t.id WHERE t.session = ? ORDER BY t.id DESC, i.seq DESC LIMIT ?",
        (session, _MOST_MESSAGES),
    )
    for channel, *rest in rows:
        if channel != CONSOLE:
            continue
        message: Mapping[str, Any] = json.loads(payload_from_row(tx, channel, *rest))
        folder = message["options"].get("cwd")
        if isinstance(folder, str):
            return folder
    return ""
