"""What a conversation was told of a project before, and still holds."""

import re
from collections.abc import Iterable, Sequence
from functools import cache

from agent.prompts import load_prompt
from agent.types import Context, Message

_PROMPTS = ("project_tree", "project_tree_changes", "project_file", "project_beginning")


def find_repeats(parts: Iterable[str], messages: Sequence[Message]) -> set[str]:
    """Those of the parts that are the last word on their file or folder already."""
    last: dict[str, str] = {}
    for message in messages:
        for part in message.content:
            if isinstance(part, Context):
                last[_subject(part.text)] = part.text
    return {part for part in parts if last.get(_subject(part)) == part}


def _subject(text: str) -> str:
    """The path that a part is about; of any other text the text itself."""
    first_line = text.partition("\n")[0]
    matches = (pattern.fullmatch(first_line) for pattern in _patterns())
    return next((match[1] for match in matches if match is not None), text)


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    """The first lines of the prompts."""
    lines = (load_prompt(name).partition("\n")[0] for name in _PROMPTS)
    ends = (re.split(r"\$(?:root|path)", line) for line in lines)
    return tuple(re.compile(f"{re.escape(begin)}(.+){re.escape(end)}") for begin, end in ends)
