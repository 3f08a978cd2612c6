"""The texts of skills that stand in a conversation: each once, and kept when its message leaves."""

import re
from collections.abc import Iterator, Sequence

from agent.context.edited_files import SKILL, AttachedFile
from agent.context.token_budget import estimate_text, level, middle_out
from agent.types import Context, Message, Text

# Name of the tool that reads skills.
SKILL_TOOL = "skill"
# What all of them may take of a window, and in a small one this part of the goal.
_MOST_TOKENS = 25_000
_GOAL_PART = 6
# As `prompts/skill_text.md` begins; `skill_apart.md` has a line before that.
_BEGIN = re.compile(r"(?:\[[^\n]*\]\n+)?Skill (\S+), in the folder /")


def skill_limit(goal: int) -> int:
    """The tokens that skills may take in a conversation of `goal` tokens."""
    return min(_MOST_TOKENS, goal // _GOAL_PART)


def skill_texts(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Names and texts of the skills that were read or called for, the oldest first."""
    calls = (call for message in messages for call in message.tool_calls)
    read = {call.id for call in calls if call.name == SKILL_TOOL}
    for message in messages:
        if message.is_error or (message.role != "user" and message.tool_call_id not in read):
            continue
        for part in message.content:
            if isinstance(part, Text | Context) and (match := _BEGIN.match(part.text)):
                yield match[1], part.text


def leaving_skills(
    leaving: Sequence[Message],
    remaining: Sequence[Message],
    earlier: Sequence[AttachedFile],
    goal: int,
) -> tuple[AttachedFile, ...]:
    """Those that no message holds any more, as they were read, and within their room."""
    texts = {one.path: one.text for one in earlier if one.path.startswith(SKILL)}
    for name, text in skill_texts(leaving):
        texts.pop(f"{SKILL}{name}", None)
        texts[f"{SKILL}{name}"] = text
    for name, _ in skill_texts(remaining):
        texts.pop(f"{SKILL}{name}", None)
    cap = level(map(estimate_text, texts.values()), skill_limit(goal))
    return tuple(AttachedFile(path, middle_out(text, cap)) for path, text in texts.items())
