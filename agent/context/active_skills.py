"""Skill texts in a conversation; each is preserved once when its message is dropped."""

import re
from collections.abc import Iterator, Sequence

from agent.context.edited_files import SKILL, AttachedFile
from agent.context.token_budget import level, middle_out
from agent.providers.token_estimate import estimate_text
from agent.types import Context, Message, Text

# Name of the tool that reads skills.
SKILL_TOOL = "skill"
# Token limit for all skill texts; in a small window, `1 / _GOAL_PART` of the goal applies.
_MAX_TOKENS = 25_000
_GOAL_PART = 6
# The beginning of `prompts/skill_text.md`, `command_text.md` and `command_built_in.md`;
# `skill_apart.md` has a line before it.
_BEGIN = re.compile(
    r"(?:\[[^\n]*\]\n+)?(?:Skill|(Command)) ([^\n]+?), "
    r"(?:in the folder /|from the file /|built in:)"
)


def skill_limit(goal: int) -> int:
    """Return the token limit for skill texts in a conversation of `goal` tokens."""
    return min(_MAX_TOKENS, goal // _GOAL_PART)


def skill_texts(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Yield names and texts of the skills that were read or invoked, oldest first."""
    calls = (call for message in messages for call in message.tool_calls)
    read = {call.id for call in calls if call.name == SKILL_TOOL}
    for message in messages:
        if message.is_error or (message.role != "user" and message.tool_call_id not in read):
            continue
        for part in message.content:
            if isinstance(part, Text | Context) and (match := _BEGIN.match(part.text)):
                yield f"/{match[2]}" if match[1] else match[2], part.text


def leaving_skills(
    leaving: Sequence[Message],
    remaining: Sequence[Message],
    earlier: Sequence[AttachedFile],
    goal: int,
) -> tuple[AttachedFile, ...]:
    """Return the skill texts that are in no remaining message, shortened to the skill limit."""
    texts = {file.path: file.text for file in earlier if file.path.startswith(SKILL)}
    for name, text in skill_texts(leaving):
        texts.pop(f"{SKILL}{name}", None)
        texts[f"{SKILL}{name}"] = text
    for name, _ in skill_texts(remaining):
        texts.pop(f"{SKILL}{name}", None)
    cap = level(map(estimate_text, texts.values()), skill_limit(goal))
    return tuple(AttachedFile(path, middle_out(text, cap)) for path, text in texts.items())
