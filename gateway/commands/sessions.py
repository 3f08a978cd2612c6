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

SHOWN = 10
_FOUND = 5
# Older messages that one command enters into the index at most: everybody waits for it.
_CHUNKS = 10


def choices(call: CommandCall, connection: Connection) -> list[KeyboardChoice]:
    """The numbers of the list, each bound to its conversation: titles are not written into a
    button, which is not sealed."""
    listed = sessions.recent(connection, SHOWN, scope_of(call))
    return [KeyboardChoice(str(n), "resume", info.id) for n, info in enumerate(listed, 1)]


def answer(call: CommandCall, connection: Connection) -> str:
    if call.argument:
        return _find(call, connection)
    listed = sessions.recent(connection, SHOWN, scope_of(call))
    if not listed:
        return t("There are no conversations of yours here yet.")
    return "\n".join([t("Your conversations here:"), *lines(call, listed), "", t(_HOW)])


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


def lines(call: CommandCall, listed: Sequence[SessionInfo]) -> list[str]:
    return [
        f"{n}. `{info.id}` {escape_markdown(info.name) or t('(empty)')}"
        + f", {_when(info.last_active_at)}"
        + _state(info, here=info.id == call.session)
        for n, info in enumerate(listed, 1)
    ]


def _find(call: CommandCall, connection: Connection) -> str:
    try:
        whole = any(search.enter_older(connection) for _ in range(_CHUNKS))
        found = search.look_up(connection, call.argument, scope_of(call), _FOUND)
    except KoreError as exc:
        return escape_markdown(f"{str(exc)[0].upper()}{str(exc)[1:]}.")
    told = [f"- `{hit.session}` {_when(hit.at)}: {escape_markdown(hit.snippet)}" for hit in found]
    if not whole:
        told.append(t("Older messages are still being read in; ask again for those."))
    return "\n".join(told) or t("Nothing found in your conversations here.")


def _state(info: SessionInfo, *, here: bool) -> str:
    states = [t("this one")] if here else []
    states += [t(_STATES[info.status])] if info.status != "idle" else []
    return f" ({', '.join(states)})" if states else ""


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
