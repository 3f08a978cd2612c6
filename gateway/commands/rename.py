"""`/rename`: give this conversation a name."""

from sqlite3 import Connection

from agent.errors import KoreError
from agent.language import t
from gateway.commands.call import CommandCall
from gateway.markdown import literal
from gateway.store import archive

_AUTOMATIC = "auto"


def answer(call: CommandCall, connection: Connection) -> str:
    if not call.argument:
        name = archive.name_of(connection, call.session) if call.session else ""
        if not name:
            return t("What should this conversation be called? Send `/rename NAME`.")
        return t(
            "This conversation is called “{name}”. `/rename NAME` changes that, `/rename auto`"
            " goes back to the automatic name.",
            name=literal(name),
        )
    wanted = "" if call.argument == _AUTOMATIC else call.argument
    try:
        kept = archive.rename(connection, call.begun_session(connection), wanted)
    except KoreError as exc:
        return t("Not renamed: {exc}.", exc=literal(str(exc)))
    if kept:
        return t("This conversation is now called “{name}”.", name=literal(kept))
    return t("This conversation has its automatic name again.")
