"""A command that nearly is one: what was meant by it, instead of an answer of the model."""

import re
from sqlite3 import Connection
from typing import TYPE_CHECKING

from agent.language import t
from gateway.commands.table import COMMANDS, MISTYPED, Command

if TYPE_CHECKING:
    from gateway.commands.call import CommandCall

# A folder such as /home is no typing error of /mode.
_CLOSE = 0.75
_WORD = re.compile(r"/([a-z]{3,20})(?:@\w+)?", re.IGNORECASE)


def meant(text: str) -> str | None:
    """The name of the command that a single word with a slash comes close to."""
    found = _WORD.fullmatch(text.strip())
    if found is None:
        return None
    from difflib import get_close_matches

    # "start" is what programs send, not people.
    names = [name for name in COMMANDS if name != "start"]
    return next(iter(get_close_matches(found[1].lower(), names, 1, _CLOSE)), None)


def command_in(text: str) -> Command | None:
    """What carries a line out; None when it is for the model."""
    word = next(iter(text.split()), "")
    known = COMMANDS.get(word[1:]) if word.startswith("/") else None
    return known or (MISTYPED if meant(text) else None)


def answer(call: "CommandCall", connection: Connection) -> str:
    word = call.message.content.strip()
    return t("There is no `{word}`; did you mean `/{meant}`?", word=word, meant=meant(word))
