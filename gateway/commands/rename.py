"""`/rename`: give this conversation a name."""

from sqlite3 import Connection

from agent.errors import KoreError
from agent.language import t
from gateway.commands.call import CommandCall
from gateway.store import archive


def answer(call: CommandCall, connection: Connection) -> str:
    if call.session is None:
        return t("There is nothing to name: this conversation has not begun.")
    before = archive.name_of(connection, call.session)
    try:
        kept = archive.rename(connection, call.session, call.argument)
    except KoreError as exc:
        return t("It keeps its name: {exc}.", exc=exc)
    if kept:
        return t("This conversation has its new name.")
    if before:
        return t("It has its automatic name again.")
    return t("It has its automatic name; `/rename NAME` gives it another.")
