"""`/fork`: go on in a copy of this conversation."""

from sqlite3 import Connection

from agent.i18n import t
from gateway.commands.dispatcher import CommandCall
from gateway.store.repositories import session_admin, sessions
from gateway.store.repositories.session_admin import SessionOwner


def answer_fork(call: CommandCall, connection: Connection) -> str:
    if call.session is None:
        return t("There is nothing to fork: this conversation has not begun.")
    lane = call.message.session_key
    owner = SessionOwner(call.message.principal, lane)
    fork = session_admin.fork(connection, call.session, owner, call.now)
    sessions.bind(connection, lane, fork)
    return t(
        "This is conversation `{fork}` now, a copy. `/resume {session}` goes back.",
        fork=fork,
        session=call.session,
    )
