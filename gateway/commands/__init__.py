"""Commands that people type in a chat; the same ones on every channel."""

from gateway.messages import InboundMessage

# Name -> what the menu and /help say. `/stop` goes past the queue; the others wait their turn.
COMMANDS = {
    "help": "what you can type here",
    "new": "start a new conversation",
    "status": "model, conversation and connection",
    "model": "show or choose the model of this conversation",
    "mode": "how much runs without a question: plan, ask, accept-edits, auto",
    "plan": "look and answer only, change nothing",
    "auto": "run without asking (the owner only)",
    "cost": "what was spent: this conversation, this chat today",
    "pair": "let people in (the owner only)",
    "stop": "stop the answer that is under way",
    "start": "say hello",
}


def command_of(message: InboundMessage) -> str | None:
    """The command that a message is, or None: only a sender's own words command."""
    if message.forwarded:
        return None
    word = _words(message)[0]
    name, _, _ = word.removeprefix("/").partition("@")
    return name.lower() if word.startswith("/") and name.lower() in COMMANDS else None


def argument_of(message: InboundMessage) -> str:
    """What stands behind the command."""
    return _words(message)[1]


def is_command(message: InboundMessage) -> bool:
    return command_of(message) is not None


def _words(message: InboundMessage) -> tuple[str, str]:
    """The first word, and the rest."""
    first, *rest = message.content.split(maxsplit=1) or [""]
    return first, rest[0].strip() if rest else ""
