"""The table of chat commands. A command's module is imported only when it is called.

Each module has one function, `answer`. A quick command's is `answer(call, connection) -> str` and
runs inside the transaction that also stores its answer. That of one that takes time (files,
models, the network) is `async answer(call) -> str`; it runs in its lane like a turn, and a crash
may run it again: what it does is keyed by `call.claim.seq`.
"""

from agent.i18n import later
from agent.records import frozen


@frozen
class Command:
    """`summary` is what the menu and /help say, `module` a name in `gateway.commands`.

    `at_once`: it changes nothing that a running turn relies on, and goes past the queue, also
    while a turn runs or waits for an answer. Only a quick command may.
    """

    summary: str
    module: str
    takes_time: bool = False
    at_once: bool = False


# `/stop` is carried out while it is taken in; what is not `at_once` waits its turn.
COMMANDS = {
    "help": Command(later("what you can type here"), "help", at_once=True),
    "new": Command(later("start a new conversation"), "new", takes_time=True),
    "sessions": Command(
        later("your conversations here, or words in them"), "sessions", at_once=True
    ),
    "resume": Command(later("go on with an earlier conversation"), "resume"),
    "fork": Command(later("go on in a copy of this conversation"), "fork"),
    "rename": Command(later("give this conversation a name"), "rename"),
    "status": Command(later("model, conversation and connection"), "status", at_once=True),
    "model": Command(later("show or choose the model of this conversation"), "model"),
    "thinking": Command(
        later("whether the model thinks first, and whether you see it"), "thinking"
    ),
    "mode": Command(
        later("how much runs without a question: plan, ask, accept-edits, auto"), "mode"
    ),
    "plan": Command(later("look and answer only, change nothing"), "mode"),
    "auto": Command(later("run without asking (the owner only)"), "mode"),
    "language": Command(later("the language that I speak to you"), "language", at_once=True),
    "verbose": Command(
        later("whether what was done stays below answers: off, summary, full"), "verbose"
    ),
    "cost": Command(
        later("what was spent: this conversation, this chat today"), "cost", at_once=True
    ),
    "compact": Command(
        later("make room: old messages become a summary"), "compact", takes_time=True
    ),
    "context": Command(later("what fills the model's window"), "context", takes_time=True),
    "queue": Command(later("what waits here: queue, join or steer"), "queue", at_once=True),
    "undo": Command(later("take back what was done to files"), "undo", takes_time=True),
    "redo": Command(later("do again what was taken back"), "undo", takes_time=True),
    "rewind": Command(later("go back to before a message"), "rewind", takes_time=True),
    "diff": Command(later("what this conversation has changed"), "diff", takes_time=True),
    "agents": Command(
        later("who can be sent out to do a piece of work"), "agents", takes_time=True
    ),
    "tools": Command(later("what I can do here"), "tools"),
    "tasks": Command(later("what runs in the background here"), "tasks", at_once=True),
    "cron": Command(later("reminders, and what I do by myself at a time"), "cron", at_once=True),
    "pair": Command(later("let people in (the owner only)"), "pair"),
    "stop": Command(later("stop the answer that is under way"), "help"),
    "start": Command(later("say hello"), "start", at_once=True),
}
# Under which titles /help lists them; "start" is what programs send, not people.
GROUPS = (
    (
        later("Conversation"),
        ("new", "sessions", "resume", "fork", "rename", "rewind", "compact", "context", "stop"),
    ),
    (later("Work"), ("undo", "redo", "diff", "tasks", "agents", "tools", "cron")),
    (later("Permissions"), ("mode", "plan", "auto", "pair")),
    (later("Model"), ("model", "thinking", "cost")),
    (later("This chat"), ("status", "queue", "verbose", "language", "help")),
)
# Other words for some of them.
ALIASES = {"clear": "new", "reset": "new"}
# Words that other programs have; the model must not answer them as if it could.
_ELSEWHERE = Command(later("say where to find it"), "elsewhere", at_once=True)
UNLISTED = dict.fromkeys(
    ("exit", "quit", "doctor", "skills", "mcp", "plugin", "plugins"), _ELSEWHERE
)
# A single word with a slash that is none of them; nobody lists it.
MISTYPED = Command(later("say what was meant"), "near", at_once=True)


def find_command(name: str) -> tuple[str, Command] | None:
    """The name of a command as the table has it, and the command; None when there is none."""
    name = ALIASES.get(name, name)
    command = COMMANDS.get(name) or UNLISTED.get(name)
    return None if command is None else (name, command)
