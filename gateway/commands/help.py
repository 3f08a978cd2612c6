"""`/help`: what one can type; also what `/stop` says when it finds nothing to stop."""

from sqlite3 import Connection

from agent.i18n import t
from gateway.commands.dispatcher import CommandCall
from gateway.commands.table import COMMANDS, GROUPS


def answer_help(call: CommandCall, connection: Connection) -> str:
    return "\n\n".join(
        "\n".join(
            [f"**{t(title)}**", *(f"/{name} - {t(COMMANDS[name].summary)}" for name in names)]
        )
        for title, names in GROUPS
    )
