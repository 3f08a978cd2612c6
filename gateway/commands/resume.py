"""`/resume`: go on with an earlier conversation, or with one that is paused."""

from sqlite3 import Connection

from gateway.commands.call import CommandCall
from gateway.commands.sessions import SHOWN, lines, scope_of
from gateway.store import archive, sessions


def answer(call: CommandCall, connection: Connection) -> str:
    wanted, here = call.argument, call.session
    if not wanted and here and archive.status_of(connection, here) == "paused":
        archive.set_status(connection, here, "open")
        return f"Conversation `{here}` goes on."
    listed = sessions.recent(connection, SHOWN, scope_of(call))
    if not wanted:
        told = lines(call, listed) or ["There is none yet."]
        return "\n".join(["`/resume N` goes on with one of these:", *told])
    if wanted.isdecimal() and len(wanted) <= len(str(SHOWN)):
        if not 1 <= int(wanted) <= len(listed):
            return f"There is no conversation number {wanted}; `/sessions` lists them."
        found = listed[int(wanted) - 1].id
    else:
        names = archive.named(connection, wanted, scope_of(call))
        if len(names) != 1:
            many = "Several conversations begin" if names else "No conversation of yours begins"
            return f"{many} with that; `/sessions` lists them."
        (found,) = names
    archive.set_status(connection, found, "open")
    sessions.bind(connection, call.message.session_key, found)
    (info,) = sessions.recent(connection, 1, session=found)
    return f"This is conversation `{found}` again, with {info.messages} messages."
