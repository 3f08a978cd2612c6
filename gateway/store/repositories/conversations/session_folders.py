"""Folders of sessions, which are sealed and can be found by a hash of their workspace."""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any

from gateway.core.messages import CONSOLE, InboundMessage, MessageOptions
from gateway.core.session_folder import SessionFolder
from gateway.store.errors import SealBroken
from gateway.store.port import Transaction
from gateway.store.repositories.codecs import PAYLOAD, payload_from_row

_COLUMN = "session.folder"
_KEY_CHARS = 32
# Row of `meta` while folders of earlier sessions are known only from their messages.
_FROM_MESSAGES = "folders_from_messages"
_MAX_READ_MESSAGES = 20
_MAX_READ_SESSIONS = 200
_PAYLOAD = ", ".join(f"inbox.{column}" for column in PAYLOAD.split(", "))


def put(tx: Transaction, session: str, folder: SessionFolder | None) -> None:
    """Set the folder of a session."""
    text = key = None
    if folder is not None:
        text, key = json.dumps(asdict(folder)), key_of(folder.workspace)
    tx.run(
        "UPDATE session SET folder = ?, folder_key = ? WHERE id = ?",
        (tx.seal(text, _COLUMN, session), key, session),
    )


def of_session(tx: Transaction, session: str) -> SessionFolder | None:
    """Return the folder of a session; None without one."""
    row = tx.first("SELECT folder FROM session WHERE id = ?", (session,))
    return None if row is None else opened(tx, session, row[0])


def opened(tx: Transaction, session: str, sealed: str | None) -> SessionFolder | None:
    """Return the folder in this column of a row; None if Kore did not write it."""
    if sealed is None:
        return None
    try:
        data: Mapping[str, Any] = json.loads(tx.unseal(sealed, _COLUMN, session))
    except SealBroken:
        return None
    return SessionFolder(**data)


def in_folder_of(tx: Transaction, session: str | None, message: InboundMessage) -> InboundMessage:
    """Return a message with the folder of a session, if it comes from the owner and names no
    folder.
    """
    options = message.options
    is_named = options.folder is not None or options.full_access is not None
    if session is None or message.channel != CONSOLE or is_named:
        return message
    folder = of_session(tx, session)
    if folder is None:
        return message
    return replace(message, options=replace(options.in_folder(folder), in_session_folder=True))


def note(tx: Transaction, session: str, message: InboundMessage) -> None:
    """Store the folder that a message of a terminal, an editor or a page names."""
    folder = message.options.folder if message.channel == CONSOLE else None
    if folder is not None and folder != of_session(tx, session):
        put(tx, session, folder)


def used(tx: Transaction, principal: str) -> list[SessionFolder]:
    """Return the folders of a person's newest sessions, most recently used first."""
    rows = tx.all(
        "SELECT id, folder FROM session WHERE principal = ? AND folder IS NOT NULL"
        " ORDER BY last_active_at DESC, id DESC LIMIT ?",
        (principal, _MAX_READ_SESSIONS),
    )
    folders = (opened(tx, *row) for row in rows)
    return list(dict.fromkeys(folder for folder in folders if folder is not None))


def in_workspace(workspace: str | None) -> tuple[str, tuple[str, ...]]:
    """Return a condition for rows of `session` in this workspace, and its value; None: all rows."""
    return ("1 = 1", ()) if workspace is None else ("folder_key = ?", (key_of(workspace),))


def key_of(workspace: str) -> str:
    """Return the column `folder_key` of sessions in a workspace."""
    return sha256(workspace.encode(errors="surrogateescape")).hexdigest()[:_KEY_CHARS]


def read_from_messages(tx: Transaction) -> None:
    """Store the folders of sessions from before version 91, once."""
    if not tx.run("DELETE FROM meta WHERE name = ?", (_FROM_MESSAGES,)):
        return
    for (session,) in tx.all("SELECT id FROM session WHERE folder IS NULL"):
        put(tx, session, _of_messages(tx, session))


def _of_messages(tx: Transaction, session: str) -> SessionFolder | None:
    """Return the folder in the newest messages of a terminal or an editor."""
    rows = tx.all(
        f"SELECT {_PAYLOAD} FROM turn JOIN inbox ON inbox.turn_id = turn.id"
        " WHERE turn.session = ? ORDER BY turn.id DESC, inbox.seq DESC LIMIT ?",
        (session, _MAX_READ_MESSAGES),
    )
    for channel, *rest in rows:
        if channel != CONSOLE:
            continue
        try:
            message: Mapping[str, Any] = json.loads(payload_from_row(tx, channel, *rest))
        except SealBroken:
            continue
        # Emptied messages have no options.
        options = MessageOptions.from_json(message.get("options", {}))
        if options.folder is not None:
            return options.folder
    return None
