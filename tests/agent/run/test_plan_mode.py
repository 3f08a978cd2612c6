"""Notes about plan mode for the model."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.context.compaction.compactor import Conversation
from agent.prompts import load_prompt, render_prompt
from agent.run.contributors import PLAN_HEADING, PlanModeNotes, has_plan
from agent.run.prompt import PromptDraft
from agent.security.policy.base import PermissionMode
from agent.turn.context_usage import PromptAudience
from agent.types import Context, Message, Text, assistant, user

BEGIN = render_prompt("plan_mode", heading=PLAN_HEADING).strip()
END = load_prompt("plan_mode_over").strip()


async def message_after(
    mode: PermissionMode | None, earlier: list[Message], *, is_resumed: bool = False
) -> Message:
    """Return the user message of a turn in this mode."""
    message = user("next")
    draft = PromptDraft(
        session="s",
        message=message,
        conversation=Conversation([*earlier, message]),
        audience=PromptAudience(Path("memory"), Path("/project"), owner=True),
        is_resumed=is_resumed,
        mode=mode,
    )
    await PlanModeNotes().contribute(draft)
    return draft.message


def notes_of(message: Message) -> list[str]:
    return [part.text for part in message.content if isinstance(part, Context)]


async def test_model_learns_once_when_plan_mode_begins_and_ends() -> None:
    earlier: list[Message] = []
    notes = []
    modes: list[PermissionMode] = ["ask", "plan", "plan", "ask", "accept-edits", "plan"]
    for mode in modes:
        message = await message_after(mode, earlier)
        notes.append(notes_of(message))
        earlier += [message, assistant("done")]
    assert notes == [[], [BEGIN], [], [END], [], [BEGIN]]


async def test_model_is_reminded_when_the_note_has_left_the_conversation() -> None:
    first = await message_after("plan", [])
    assert notes_of(await message_after("plan", [first])) == []
    assert notes_of(await message_after("plan", [])) == [BEGIN]


@pytest.mark.parametrize(("mode", "is_resumed"), [(None, False), ("plan", True)])
async def test_subagent_and_resumed_turn_get_no_note(
    mode: PermissionMode | None, is_resumed: bool
) -> None:
    assert notes_of(await message_after(mode, [], is_resumed=is_resumed)) == []


async def test_words_of_the_person_are_not_a_note() -> None:
    quoted = replace(user(""), content=(Text(BEGIN),))
    assert notes_of(await message_after("plan", [quoted])) == [BEGIN]


@pytest.mark.parametrize(
    ("reply", "is_plan"),
    [
        ("# Plan\n\n1. Change a.py.", True),
        ("Here it is.\n\n## Plan:\n1. Change a.py.\n\nShall I begin?", True),
        ("I have no plan yet. Which file do you mean?", False),
        ("You are welcome! # Plan", False),
        ("# Planning poker", False),
    ],
)
def test_reply_with_the_heading_hands_over_a_plan(reply: str, is_plan: bool) -> None:
    assert has_plan(reply) == is_plan
