"""`/rename`: give this conversation a name."""

from sqlite3 import Connection

from agent.errors import KoreError
from agent.i18n import t
from gateway.commands.dispatcher import CommandCall
from gateway.core.markdown import escape_markdown
from gateway.store.repositories import session_admin

_AUTOMATIC_NAME = "auto"


def answer_rename(call: CommandCall, connection: Connection) -> str:
    if not call.argument:
        name = session_admin.name_of(connection, call.session) if call.session else ""
        if not name:
            return t("What should this conversation be called? Send `/rename NAME`.")
        return t(
            "This conversation is called “{name}”. `/rename NAME` changes that, `/rename auto`"
            " goes back to the automatic name.",
            name=escape_markdown(name),
        )
    wanted = "" if call.argument == _AUTOMATIC_NAME else call.argument
    try:
        kept = session_admin.rename(connection, call.begun_session(connection), wanted)
    except KoreError as exc:
        return t("Not renamed: {exc}.", exc=escape_markdown(str(exc)))
    if kept:
        return t("This conversation is now called “{name}”.", name=escape_markdown(kept))
    return t("This conversation has its automatic name again.")
