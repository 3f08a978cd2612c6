"""`/verbose`: whether a trace of what was done stays below the answers of this chat."""

from sqlite3 import Connection
from typing import get_args

from agent.i18n import mark_for_translation, t
from gateway.commands.dispatcher import CommandCall
from gateway.core.records import Trace
from gateway.store.repositories import sessions

_TRACE_MEANINGS: dict[Trace, str] = {
    "off": mark_for_translation("the answer alone"),
    "summary": mark_for_translation("one line with tools, changed files and costs below it"),
    "full": mark_for_translation("each step, too"),
}


def answer_verbose(call: CommandCall, connection: Connection) -> str:
    first = call.office.first_trace(call.message.route)
    if first is None:
        return t("The terminal shows what is done by itself; `/verbose` is for chats.")
    chosen = sessions.trace_of_session(connection, call.session) if call.session else None
    wanted = call.argument.casefold()
    level = next((one for one in get_args(Trace) if one == wanted), None)
    if level is None:
        head = t(
            "Below answers here: `{level}`. `/verbose NAME` chooses another:",
            level=chosen or first,
        )
        return "\n".join([head, *(f"- `{one}` {t(told)}" for one, told in _TRACE_MEANINGS.items())])
    sessions.choose_trace(connection, call.begun_session(connection), level)
    return t(
        "Below answers here: `{level}`, {meaning}.", level=level, meaning=t(_TRACE_MEANINGS[level])
    )
