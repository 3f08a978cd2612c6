"""The table of chat commands. A command's module is imported only when it is called.

Each module has one function, `answer`. A quick command's is `answer(call, connection) -> str` and
runs inside the transaction that also stores its answer. That of one that takes time (files,
models, the network) is `async answer(call) -> str`; it runs in its lane like a turn, and a crash
may run it again: what it does is keyed by `call.claim.seq`.
"""

from agent.frozen import frozen


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
    "help": Command("what you can type here", "help", at_once=True),
    "new": Command("start a new conversation", "new", takes_time=True),
    "sessions": Command("your conversations here, or words in them", "sessions", at_once=True),
    "resume": Command("go on with an earlier conversation", "resume"),
    "fork": Command("go on in a copy of this conversation", "fork"),
    "rename": Command("give this conversation a name", "rename"),
    "status": Command("model, conversation and connection", "status", at_once=True),
    "model": Command("show or choose the model of this conversation", "model"),
    "thinking": Command("whether the model thinks first, and whether you see it", "thinking"),
    "mode": Command("how much runs without a question: plan, ask, accept-edits, auto", "mode"),
    "plan": Command("look and answer only, change nothing", "mode"),
    "auto": Command("run without asking (the owner only)", "mode"),
    "language": Command("the language that I speak to you", "language", at_once=True),
    "cost": Command("what was spent: this conversation, this chat today", "cost", at_once=True),
    "compact": Command("make room: old messages become a summary", "compact", takes_time=True),
    "context": Command("what fills the model's window", "context", takes_time=True),
    "queue": Command("what waits here: queue, join or steer", "queue", at_once=True),
    "undo": Command("take back what was done to files", "undo", takes_time=True),
    "redo": Command("do again what was taken back", "undo", takes_time=True),
    "rewind": Command("go back to before a message", "rewind", takes_time=True),
    "diff": Command("what this conversation has changed", "diff", takes_time=True),
    "agents": Command("who can be sent out to do a piece of work", "agents", takes_time=True),
    "tools": Command("what I can do here", "tools"),
    "tasks": Command("what runs in the background here", "tasks", at_once=True),
    "pair": Command("let people in (the owner only)", "pair"),
    "stop": Command("stop the answer that is under way", "help"),
    "start": Command("say hello", "start", at_once=True),
}
# What comes close to one of them; nobody lists it.
MISTYPED = Command("say what was meant", "near", at_once=True)
