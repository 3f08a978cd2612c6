"""The table of chat commands. A command's module is imported only when it is called.

Each command has a function of its own. A quick command's is `answer(call, connection) -> str` and
runs inside the transaction that also stores its answer. That of one that takes time (files,
models, the network) is `async answer(call) -> str`; it runs in its lane like a turn, and a crash
may run it again: what it does is keyed by `call.claim.seq`.
"""

from agent.i18n import mark_for_translation
from agent.records import frozen


@frozen
class ChatCommand:
    """`summary` is what the menu and /help say; `answer` and `choices` are functions below
    `gateway.commands`, as "module.function".

    `choices(call, connection)` returns the buttons below the answer to the bare command.

    `at_once`: it changes nothing that a running turn relies on, and goes past the queue, also
    while a turn runs or waits for an answer. Only a quick command may.
    """

    summary: str
    answer: str
    choices: str | None = None
    takes_time: bool = False
    at_once: bool = False


# `/stop` and `/deny` are carried out while they are taken in; what is not `at_once` waits its turn.
COMMANDS = {
    "help": ChatCommand(
        mark_for_translation("list the commands"), "info.answer_help", at_once=True
    ),
    "new": ChatCommand(
        mark_for_translation("start a new conversation"), "sessions.answer_new", takes_time=True
    ),
    "sessions": ChatCommand(
        mark_for_translation("list or search your conversations here"),
        "sessions.answer_sessions",
        choices="sessions.session_choices",
        at_once=True,
    ),
    "resume": ChatCommand(
        mark_for_translation("resume an earlier conversation"),
        "sessions.answer_resume",
        choices="sessions.session_choices",
    ),
    "fork": ChatCommand(
        mark_for_translation("continue in a copy of this conversation"), "sessions.answer_fork"
    ),
    "rename": ChatCommand(
        mark_for_translation("rename this conversation"), "sessions.answer_rename"
    ),
    "status": ChatCommand(
        mark_for_translation("show model, conversation and connection"),
        "info.answer_status",
        at_once=True,
    ),
    "model": ChatCommand(
        mark_for_translation("show or choose the model of this conversation"),
        "settings.answer_model",
        choices="settings.model_choices",
    ),
    "thinking": ChatCommand(
        mark_for_translation("show or set thinking, and whether you see it"),
        "settings.answer_thinking",
    ),
    "mode": ChatCommand(
        mark_for_translation("permission mode: plan, ask, accept-edits, auto"),
        "settings.answer_mode",
        choices="settings.mode_choices",
    ),
    "plan": ChatCommand(
        mark_for_translation("plan mode: read and answer, change nothing"),
        "settings.answer_mode",
        choices="settings.mode_choices",
    ),
    "auto": ChatCommand(
        mark_for_translation("auto mode: run without asking (owner only)"),
        "settings.answer_mode",
        choices="settings.mode_choices",
    ),
    "language": ChatCommand(
        mark_for_translation("show or change my language"),
        "settings.answer_language",
        choices="settings.language_choices",
        at_once=True,
    ),
    "verbose": ChatCommand(
        mark_for_translation("detail below answers: off, summary, full"),
        "settings.answer_verbose",
    ),
    "cost": ChatCommand(
        mark_for_translation("cost of this conversation and this chat today"),
        "info.answer_cost",
        at_once=True,
    ),
    "compact": ChatCommand(
        mark_for_translation("summarize older messages to free context"),
        "context.answer_compact",
        takes_time=True,
    ),
    "context": ChatCommand(
        mark_for_translation("show what uses the context window"),
        "context.answer_context",
        takes_time=True,
    ),
    "queue": ChatCommand(
        mark_for_translation("show the queue; set queue, join or steer"),
        "settings.answer_queue",
        at_once=True,
    ),
    "undo": ChatCommand(
        mark_for_translation("undo file changes"),
        "undo.answer_undo",
        takes_time=True,
    ),
    "redo": ChatCommand(
        mark_for_translation("redo undone changes"), "undo.answer_undo", takes_time=True
    ),
    "rewind": ChatCommand(
        mark_for_translation("go back to before a message"), "rewind.answer_rewind", takes_time=True
    ),
    "diff": ChatCommand(
        mark_for_translation("show what this conversation changed"),
        "diff.answer_diff",
        takes_time=True,
    ),
    "agent": ChatCommand(
        mark_for_translation("show or choose the agent that answers here"),
        "settings.answer_agent",
        takes_time=True,
    ),
    "style": ChatCommand(
        mark_for_translation("show or choose the output style"),
        "style.answer_style",
        takes_time=True,
    ),
    "agents": ChatCommand(
        mark_for_translation("list the sub-agents"),
        "info.answer_agents",
        takes_time=True,
    ),
    "tools": ChatCommand(
        mark_for_translation("list the tools available here"), "info.answer_tools"
    ),
    "skills": ChatCommand(
        mark_for_translation("list the skills"), "info.answer_skills", takes_time=True
    ),
    "mcp": ChatCommand(
        mark_for_translation("list the MCP servers, log in to one"),
        "mcp.answer_mcp",
        takes_time=True,
    ),
    "plugin": ChatCommand(
        mark_for_translation("list, enable and disable plugins"),
        "plugins.answer_plugin",
        takes_time=True,
    ),
    "tasks": ChatCommand(
        mark_for_translation("list background tasks"), "tasks.answer_tasks", at_once=True
    ),
    "cron": ChatCommand(
        mark_for_translation("reminders and scheduled tasks"),
        "info.answer_cron",
        choices="info.cron_choices",
        at_once=True,
    ),
    "pair": ChatCommand(mark_for_translation("manage access (owner only)"), "info.answer_pair"),
    "stop": ChatCommand(mark_for_translation("stop the current answer"), "info.answer_help"),
    "deny": ChatCommand(
        mark_for_translation("deny what I ask, and say why"), "info.answer_help", at_once=True
    ),
    "start": ChatCommand(mark_for_translation("say hello"), "info.answer_start", at_once=True),
}
# Under which titles /help lists them; "start" is what programs send, not people.
GROUPS = (
    (
        mark_for_translation("Conversation"),
        ("new", "sessions", "resume", "fork", "rename", "rewind", "compact", "context", "stop"),
    ),
    (
        mark_for_translation("Work"),
        ("undo", "redo", "diff", "tasks", "agents", "tools", "skills", "mcp", "plugin", "cron"),
    ),
    (mark_for_translation("Permissions"), ("mode", "plan", "auto", "deny", "pair")),
    (mark_for_translation("Model"), ("model", "agent", "style", "thinking", "cost")),
    (mark_for_translation("This chat"), ("status", "queue", "verbose", "language", "help")),
)
# Other words for some of them.
ALIASES = {"clear": "new", "reset": "new", "plugins": "plugin"}
# Words that other programs have; the model must not answer them as if it could.
_ELSEWHERE = ChatCommand(
    mark_for_translation("say where to find it"), "info.answer_elsewhere", at_once=True
)
UNLISTED = dict.fromkeys(("exit", "quit", "doctor"), _ELSEWHERE)
# A single word with a slash that is no command; it is not listed.
MISTYPED = ChatCommand(
    mark_for_translation("say what was meant"), "suggestions.answer_mistyped", at_once=True
)


def menu() -> tuple[tuple[str, str], ...]:
    """Each listed command with what it does, in English."""
    return tuple((name, command.summary) for name, command in COMMANDS.items())


def find_command(name: str) -> tuple[str, ChatCommand] | None:
    """The name of a command as the table has it, and the command; None when there is none."""
    name = ALIASES.get(name, name)
    command = COMMANDS.get(name) or UNLISTED.get(name)
    return None if command is None else (name, command)
