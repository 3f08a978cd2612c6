"""Words that are commands in other programs: where to find here what they stand for."""

from sqlite3 import Connection

from agent.i18n import mark_for_translation, t
from gateway.commands.dispatcher import CommandCall

_NO_EXIT = mark_for_translation(
    "A chat has no end; write whenever you like. /new starts a new conversation."
)
_NO_PLUGINS = mark_for_translation(
    "This version of Kore has no plugins. /tools lists what I can do."
)
_ELSEWHERE = {
    "exit": _NO_EXIT,
    "quit": _NO_EXIT,
    "doctor": mark_for_translation(
        "Run `kore doctor` on the machine where Kore runs. /status shows how I am doing here."
    ),
    "skills": mark_for_translation(
        "This version of Kore has no skills. /tools lists what I can do, /agents my sub-agents."
    ),
    "mcp": mark_for_translation(
        "This version of Kore has no MCP servers. /tools lists what I can do."
    ),
    "plugin": _NO_PLUGINS,
    "plugins": _NO_PLUGINS,
}


def answer_elsewhere(call: CommandCall, connection: Connection) -> str:
    return t(_ELSEWHERE[call.name])
