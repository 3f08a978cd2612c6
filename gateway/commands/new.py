"""`/new`: a new conversation for this chat."""

from sqlite3 import Connection

from gateway.commands.call import CommandCall
from gateway.store import sessions


def answer(call: CommandCall, connection: Connection) -> str:
    message = call.message
    session = sessions.create_session(
        connection, message.principal, call.now, lane=message.session_key
    )
    return f"New conversation `{session}`. The earlier one is kept."
