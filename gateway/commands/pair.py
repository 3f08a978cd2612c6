"""`/pair`: who may write to Kore."""

from sqlite3 import Connection

from gateway.commands.dispatcher import CommandCall


def answer_pair(call: CommandCall, connection: Connection) -> str:
    return call.office.door.command(connection, call.message, call.argument, call.now)
