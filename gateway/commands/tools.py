"""`/tools`: what the model can do here."""

from sqlite3 import Connection

from gateway.commands.call import CommandCall


def answer(call: CommandCall, connection: Connection) -> str:
    tools = call.office.agent.toolbox.specs()
    lines = [f"- `{one.name}`: {' '.join(one.description.split('.')[0].split())}" for one in tools]
    return "\n".join([*lines, "`/mode` says how much of it runs without a question."])
