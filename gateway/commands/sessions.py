"""`/sessions`: the conversations that somebody may go on with in this chat, or words in them."""

import time
from collections.abc import Sequence
from sqlite3 import Connection

from agent.errors import KoreError
from agent.i18n import mark_for_translation, t
from gateway.commands.dispatcher import CommandCall
from gateway.core.keyboard import KeyboardChoice
from gateway.core.markdown import escape_markdown
from gateway.core.messages import CONSOLE, Route
from gateway.core.records import SessionInfo, SessionState
from gateway.store import search
from gateway.store.repositories import sessions
from gateway.store.search import Scope

MAX_SESSIONS = 10
_MAX_HITS = 5
# Older messages that one command enters into the index at most: everybody waits for it.
_MAX_INDEX_CHUNKS = 10


def session_choices(call: CommandCall, connection: Connection) -> list[KeyboardChoice]:
    """The numbers of the list, each bound to its conversation: titles are not written into a
    button, which is not sealed."""
    listed = sessions.recent(connection, MAX_SESSIONS, scope_of(call))
    return [KeyboardChoice(str(n), "resume", info.id) for n, info in enumerate(listed, 1)]


def answer_sessions(call: CommandCall, connection: Connection) -> str:
    if call.argument:
        return _search(call, connection)
    listed = sessions.recent(connection, MAX_SESSIONS, scope_of(call))
    if not listed:
        return t("There are no conversations of yours here yet.")
    return "\n".join([t("Your conversations here:"), *session_lines(call, listed), "", t(_HOW)])


_HOW = mark_for_translation("`/resume N` goes on with one, `/sessions WORDS` finds words in them.")


def scope_of(call: CommandCall) -> Scope:
    """Their own conversations of this chat; for the owner in private the terminal's, too."""
    message = call.message
    if message.channel == CONSOLE:
        return Scope()
    alone = call.office.door.access.is_owner_alone(message)
    chat = Route(message.channel, message.account, message.chat_id).lane
    return Scope(message.principal, chat, console=alone)


_STATES: dict[SessionState, str] = {
    "idle": "",
    "running": mark_for_translation("running"),
    "paused": mark_for_translation("paused"),
    "closed": mark_for_translation("closed"),
}


def session_lines(call: CommandCall, listed: Sequence[SessionInfo]) -> list[str]:
    return [
        f"{n}. `{info.id}` {escape_markdown(info.name) or t('(empty)')}"
        + f", {_date_text(info.last_active_at)}"
        + _state_text(info, here=info.id == call.session)
        for n, info in enumerate(listed, 1)
    ]


def _search(call: CommandCall, connection: Connection) -> str:
    try:
        whole = any(search.enter_older(connection) for _ in range(_MAX_INDEX_CHUNKS))
        found = search.look_up(connection, call.argument, scope_of(call), _MAX_HITS)
    except KoreError as exc:
        return escape_markdown(f"{str(exc)[0].upper()}{str(exc)[1:]}.")
    told = [
        f"- `{hit.session}` {_date_text(hit.at)}: {escape_markdown(hit.snippet)}" for hit in found
    ]
    if not whole:
        told.append(t("Older messages are still being read in; ask again for those."))
    return "\n".join(told) or t("Nothing found in your conversations here.")


def _state_text(info: SessionInfo, *, here: bool) -> str:
    states = [t("this one")] if here else []
    states += [t(_STATES[info.status])] if info.status != "idle" else []
    return f" ({', '.join(states)})" if states else ""


def _date_text(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
