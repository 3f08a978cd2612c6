"""Binding of terminals to conversations, inside the caller's transaction."""

import time
from dataclasses import replace

from agent.errors import KoreError
from agent.i18n import t
from gateway.core.messages import CONSOLE, Route, console_principal
from gateway.core.records import ConsoleLease
from gateway.core.token_routes import token_of_lane, token_principal
from gateway.sessions import lookup
from gateway.sessions.token_room import check_room
from gateway.store.port import Transaction
from gateway.store.repositories.active_channels import foreign_channel
from gateway.store.repositories.conversations import session_admin, session_folders, sessions
from gateway.store.repositories.delivery import inbox, outbox

LOCAL, MAIN = "local", "main"


def bind(tx: Transaction, lane: str, session: str | None) -> str:
    token = token_of_lane(lane)
    principal = console_principal() if token is None else token_principal(token)
    if token is not None and sessions.bound_session(tx, lane) is None:
        # Refuse before anything is stored.
        check_room(tx, principal)
    if session is None:
        session_id = sessions.create_session(tx, principal, time.time())
    else:
        session_id = lookup.find(tx, session)
        if (channel := foreign_channel(tx, session_id)) is not None:
            raise KoreError(
                t(
                    "session {id} has an unfinished turn from {channel}, which this "
                    "process does not run",
                    id=session_id,
                    channel=channel,
                ),
                hint=t("`kore gateway` finishes it; to continue now, use a copy: --fork-session"),
            )
    sessions.bind(tx, lane, session_id)
    return session_id


def consoles_of(tx: Transaction, session: str) -> list[str]:
    """Return the chat ids of consoles in this session, where an answer may be in progress."""
    lanes = sessions.lanes_of(tx, lookup.find(tx, session))
    prefix = Route(CONSOLE, LOCAL, "").lane
    return [lane.removeprefix(prefix) for lane in lanes if lane.startswith(f"{prefix}{MAIN}")]


def open_console(
    tx: Transaction, chat_id: str, session: str | None, fresh: bool, workspace: str | None = None
) -> ConsoleLease | None:
    """Bind the console to a session; return None if other work is unfinished in this chat.

    A new console in `workspace` ignores work of another workspace.
    """
    lane = Route(CONSOLE, LOCAL, chat_id).lane
    lease = _open_lane(tx, chat_id, lane, session, fresh, workspace)
    return lease and replace(lease, delivered=outbox.last_before_news(tx, lane))


def _open_lane(
    tx: Transaction,
    chat_id: str,
    lane: str,
    session: str | None,
    fresh: bool,
    workspace: str | None,
) -> ConsoleLease | None:
    unfinished = inbox.has_work(tx, lane) or outbox.has_mail(tx, lane)
    current = sessions.bound_session(tx, lane)
    if unfinished:
        if fresh and current is not None and _stays(tx, current, workspace):
            return None
        if session is not None and lookup.find(tx, session) != current:
            return None
        return ConsoleLease(chat_id, current, unfinished=True)
    if session is not None:
        return ConsoleLease(chat_id, bind(tx, lane, session), unfinished=False)
    if fresh:
        sessions.unbind(tx, lane)
        return ConsoleLease(chat_id, None, unfinished=False)
    last = sessions.last_of(tx, console_principal())
    if last is not None:
        bind(tx, lane, last)
    return ConsoleLease(chat_id, last, unfinished=False)


def _stays(tx: Transaction, session: str, workspace: str | None) -> bool:
    """Return whether unfinished work waits for a person who continues the session by its id."""
    if session_admin.status_of(tx, session) == "paused":
        return True
    folder = session_folders.of_session(tx, session)
    return folder is not None and workspace not in (None, folder.workspace)
