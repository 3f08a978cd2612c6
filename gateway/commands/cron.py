"""`/cron`: reminders and tasks that come due by themselves."""

from sqlite3 import Connection

from gateway.commands.dispatcher import CommandCall
from gateway.core.keyboard import KeyboardChoice


def cron_choices(call: CommandCall, connection: Connection) -> list[KeyboardChoice]:
    wanted = call.office.timetable.choices(connection, call.message)
    return [KeyboardChoice(label, "cron", argument) for label, argument in wanted]


def answer_cron(call: CommandCall, connection: Connection) -> str:
    timetable = call.office.timetable
    return timetable.command(connection, call.message, call.argument, call.session)
