"""`/cron`: reminders and tasks that come due by themselves."""

from sqlite3 import Connection

from gateway.commands.call import CommandCall


def answer(call: CommandCall, connection: Connection) -> str:
    timetable = call.office.timetable
    return timetable.command(connection, call.message, call.argument, call.session)
