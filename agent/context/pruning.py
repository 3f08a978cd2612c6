"""Old results of tools, shortened to a line that says where the whole is."""

import re
from collections.abc import Sequence
from dataclasses import replace

from agent.prompts import load_prompt, render_prompt
from agent.types import Message, Text

# A shorter result is not worth a line in its place.
SHORT_CHARS = 600
_WHOLE = re.compile(r"(?:whole text|bytes) in (\S[^)\n]{0,300})\)")


def shorten_old_results(messages: Sequence[Message], upto: int) -> list[Message]:
    """The messages, with the long results among the first `upto` of them shortened."""
    return [*map(pruned, messages[:upto]), *messages[upto:]]


def pruned(message: Message) -> Message:
    """A long result as a line, everything else as it is. It keeps what it says of taint."""
    if message.role != "tool":
        return message
    text = message.text
    pictures = any(not isinstance(part, Text) for part in message.content)
    if len(text) <= SHORT_CHARS and not pictures:
        return message
    kept = _WHOLE.search(text)
    where = render_prompt("pruned_file", file=kept[1]) if kept else load_prompt("pruned_again")
    line = render_prompt("pruned", characters=f"{len(text):,}", where=where)
    return replace(message, content=(Text(line),))
