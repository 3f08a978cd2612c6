"""`/queue`: what waits in a chat, and what becomes of a message that arrives while a turn runs."""

from sqlite3 import Connection
from typing import get_args

from agent.i18n import mark_for_translation, t
from gateway.commands import is_command
from gateway.commands.dispatcher import CommandCall
from gateway.core.markdown import code
from gateway.core.records import QueueMode
from gateway.store.repositories import inbox, sessions

_QUEUE_MEANINGS: dict[QueueMode, str] = {
    "queue": mark_for_translation("each message gets an answer of its own, one after the other"),
    "join": mark_for_translation("all messages that wait get one answer together"),
    "steer": mark_for_translation(
        "a message joins the work that is under way, before its next step"
    ),
}
_MAX_WAITING = 5
_MAX_WAITING_CHARS = 60


def answer_queue(call: CommandCall, connection: Connection) -> str:
    mode = sessions.queue_mode_of_lane(connection, call.message.session_key)
    wanted = call.argument.casefold()
    if not wanted:
        return "\n".join([*_waiting_lines(call, connection), "", *_queue_mode_lines(mode)])
    chosen = next((known for known in get_args(QueueMode) if known == wanted), None)
    if chosen is None:
        known = ", ".join(f"`{name}`" for name in _QUEUE_MEANINGS)
        return t(
            "There is no such way; there are {known}. It stays `{mode}`.", known=known, mode=mode
        )
    sessions.choose_queue_mode(connection, call.begun_session(connection), chosen)
    meaning = t(_QUEUE_MEANINGS[chosen])
    return t("While I work here: `{mode}`, {meaning}.", mode=chosen, meaning=meaning)


def _waiting_lines(call: CommandCall, connection: Connection) -> list[str]:
    waiting = [
        message
        for message in inbox.waiting_messages(connection, call.message.session_key)
        if not (is_command(message) and message.event_id == call.message.event_id)
    ]
    if not waiting:
        return [t("Nothing waits here.")]
    lines = [t("{n} waiting here:", n=len(waiting))]
    lines += [f"- {_shorten(message.content)}" for message in waiting[:_MAX_WAITING]]
    if len(waiting) > _MAX_WAITING:
        lines.append(t("- and {n} more", n=len(waiting) - _MAX_WAITING))
    return lines


def _queue_mode_lines(mode: str) -> list[str]:
    lines = [t("While I work: `{mode}`. `/queue NAME` chooses another:", mode=mode)]
    return [*lines, *(f"- `{name}`: {t(meaning)}" for name, meaning in _QUEUE_MEANINGS.items())]


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return code(line if len(line) <= _MAX_WAITING_CHARS else f"{line[: _MAX_WAITING_CHARS - 1]}…")
