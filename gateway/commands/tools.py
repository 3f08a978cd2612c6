"""`/tools`: what the model can do here."""

from sqlite3 import Connection

from agent.i18n import t
from gateway.commands.dispatcher import CommandCall
from gateway.core.markdown import code, escape_markdown


def answer_tools(call: CommandCall, connection: Connection) -> str:
    """Those of the agent that the terminal speaks with."""
    from gateway.turns.agent_profiles import profile_for
    from gateway.turns.tool_listing import beginning

    speaks, tools = profile_for(call.message), call.office.agent.toolbox.specs()
    lines = [
        f"- {code(one.name)}: {escape_markdown(beginning(one.description))}"
        for one in tools
        if speaks is None or speaks.chooses(one.name)
    ]
    return "\n".join([*lines, "", t("`/mode` says how much of it runs without a question.")])
