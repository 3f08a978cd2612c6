"""Words that are commands in other programs: where to find here what they stand for."""

from sqlite3 import Connection

from agent.i18n import mark_for_translation, t
from gateway.commands.dispatcher import CommandCall

_LEAVE = mark_for_translation(
    "A chat has no end; write whenever you like. /new starts a new conversation."
)
_PLUGINS = mark_for_translation("This version of Kore has no plugins. /tools lists what I can do.")
_ANSWERS = {
    "exit": _LEAVE,
    "quit": _LEAVE,
    "doctor": mark_for_translation(
        "Run `kore doctor` on the machine where Kore runs. /status shows how I am doing here."
    ),
    "skills": mark_for_translation(
        "This version of Kore has no skills. /tools lists what I can do, /agents my sub-agents."
    ),
    "mcp": mark_for_translation(
        "This version of Kore has no MCP servers. /tools lists what I can do."
    ),
    "plugin": _PLUGINS,
    "plugins": _PLUGINS,
}


def answer(call: CommandCall, connection: Connection) -> str:
    return t(_ANSWERS[call.name])
