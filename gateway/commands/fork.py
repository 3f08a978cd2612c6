"""`/fork`: go on in a copy of this conversation."""

from sqlite3 import Connection

from gateway.commands.call import CommandCall
from gateway.store import archive, sessions
from gateway.store.archive import Owner


def answer(call: CommandCall, connection: Connection) -> str:
    if call.session is None:
        return "There is nothing to fork: this conversation has not begun."
    lane = call.message.session_key
    owner = Owner(call.message.principal, lane)
    fork = archive.fork(connection, call.session, owner, call.now)
    sessions.bind(connection, lane, fork)
    return f"This is conversation `{fork}` now, a copy. `/resume {call.session}` goes back."
