"""`/resume`: go on with an earlier conversation, or with one that is paused."""

from sqlite3 import Connection

from agent.i18n import plural, t
from gateway.commands.dispatcher import CommandCall
from gateway.commands.sessions import MAX_SESSIONS, scope_of, session_lines
from gateway.store.repositories import session_admin, sessions


def answer_resume(call: CommandCall, connection: Connection) -> str:
    wanted, here = call.argument, call.session
    if not wanted and here and session_admin.status_of(connection, here) == "paused":
        session_admin.set_status(connection, here, "open")
        return t("Conversation `{here}` goes on.", here=here)
    listed = sessions.recent(connection, MAX_SESSIONS, scope_of(call))
    if not wanted:
        told = session_lines(call, listed) or [t("There is none yet.")]
        return "\n".join([t("`/resume N` goes on with one of these:"), *told])
    if wanted.isdecimal() and len(wanted) <= len(str(MAX_SESSIONS)):
        if not 1 <= int(wanted) <= len(listed):
            return t(
                "There is no conversation number {wanted}; `/sessions` lists them.", wanted=wanted
            )
        found = listed[int(wanted) - 1].id
    else:
        names = session_admin.named(connection, wanted, scope_of(call))
        if len(names) != 1:
            return t(
                "Several conversations begin with that; `/sessions` lists them."
                if names
                else "No conversation of yours begins with that; `/sessions` lists them."
            )
        (found,) = names
    session_admin.set_status(connection, found, "open")
    sessions.bind(connection, call.message.session_key, found)
    (info,) = sessions.recent(connection, 1, session=found)
    return plural(
        info.messages,
        "This is conversation `{id}` again, with {n} message.",
        "This is conversation `{id}` again, with {n} messages.",
        id=found,
    )
