"""`/start`: what a chat app sends when somebody opens the conversation."""

from sqlite3 import Connection

from agent.i18n import t
from gateway.commands.dispatcher import CommandCall


def answer_start(call: CommandCall, connection: Connection) -> str:
    return t("Hello, I am Kore. Write to me as you would to a person; /help lists more.")
