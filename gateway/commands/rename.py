"""`/rename`: give this conversation a name."""

from sqlite3 import Connection

from agent.errors import KoreError
from gateway.commands.call import CommandCall
from gateway.store import archive


def answer(call: CommandCall, connection: Connection) -> str:
    if call.session is None:
        return "There is nothing to name: this conversation has not begun."
    before = archive.name_of(connection, call.session)
    try:
        kept = archive.rename(connection, call.session, call.argument)
    except KoreError as exc:
        return f"It keeps its name: {exc}."
    if kept:
        return "This conversation has its new name."
    if before:
        return "It has its automatic name again."
    return "It has its automatic name; `/rename NAME` gives it another."
