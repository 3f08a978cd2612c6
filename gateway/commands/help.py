"""`/help`: what one can type; also what `/stop` says when it finds nothing to stop."""

from sqlite3 import Connection

from agent.language import t
from gateway.commands.call import CommandCall
from gateway.commands.table import COMMANDS


def answer(call: CommandCall, connection: Connection) -> str:
    listed = (f"/{name} - {t(one.summary)}" for name, one in COMMANDS.items() if name != "start")
    return "\n".join(listed)
