"""Detection of project context that a conversation already contains."""

import re
from collections.abc import Iterable, Sequence
from functools import cache

from agent.prompts import load_prompt
from agent.types import Context, Message

_PROMPTS = ("project_tree", "project_tree_changes", "project_file", "project_beginning")


def find_repeats(parts: Iterable[str], messages: Sequence[Message]) -> set[str]:
    """Return the parts that are identical to the latest context about their file or folder."""
    last: dict[str, str] = {}
    for message in messages:
        for part in message.content:
            if isinstance(part, Context):
                last[_subject(part.text)] = part.text
    return {part for part in parts if last.get(_subject(part)) == part}


def _subject(text: str) -> str:
    """Return the path that a part describes; for other texts, the text itself."""
    first_line = text.partition("\n")[0]
    matches = (pattern.fullmatch(first_line) for pattern in _patterns())
    return next((match[1] for match in matches if match is not None), text)


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """Return patterns for the first lines of the prompts."""
    lines = (load_prompt(name).partition("\n")[0] for name in _PROMPTS)
    ends = (re.split(r"\$(?:root|path)", line) for line in lines)
    return tuple(re.compile(f"{re.escape(begin)}(.+){re.escape(end)}") for begin, end in ends)
