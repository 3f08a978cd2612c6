"""`/status`: model, conversation, and for the owner how the process is."""

from sqlite3 import Connection

from agent.version import VERSION
from gateway.commands.call import CommandCall
from gateway.commands.model import chosen
from gateway.store import sessions


def answer(call: CommandCall, connection: Connection) -> str:
    lines = [f"Kore {VERSION}", f"Model: `{chosen(call, connection)}`"]
    if call.session:
        count = sessions.count_messages(connection, call.session)
        lines.append(f"Conversation: `{call.session}`, {count} messages")
    if call.is_owner:
        lines += [f"{name}: {value}" for name, value in call.office.facts().items()]
    return "\n".join(lines)
