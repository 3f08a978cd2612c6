"""Messages that open a turn, with the parts added by contributors."""

from datetime import datetime
from pathlib import Path

from agent.context.compaction.compactor import Conversation
from agent.records import frozen
from agent.run.prompt import PromptDraft, PromptEntry, compose_prompt
from agent.run.run import Run
from agent.turn.context_usage import PromptAudience
from agent.types import Context, Image, Text, user

NOW = datetime(2026, 1, 5, 9, 0)
PHOTO = Image("image/png", b"x")


def draft_of(folder: Path) -> PromptDraft:
    message = user("hello")
    audience = PromptAudience(folder / "MEMORY.md", folder, owner=True)
    return PromptDraft(
        session="s", message=message, conversation=Conversation([message]), audience=audience
    )


def test_single_entry_keeps_its_parts_in_order() -> None:
    message = compose_prompt([PromptEntry((Text("look"), PHOTO, Text("here")))], NOW)
    assert message.content[:3] == (Text("look"), PHOTO, Text("here"))


def test_notes_precede_the_time_and_updates_follow_it() -> None:
    message = compose_prompt([PromptEntry((Text("go"),))], NOW, notes=["note"], updates=["news"])
    assert [part.text for part in message.content if isinstance(part, Context)][::2] == [
        "note",
        "news",
    ]


def test_file_stays_with_its_entry() -> None:
    entries = [PromptEntry((Text("a"),), (PHOTO,)), PromptEntry((Text("b"),))]
    parts = compose_prompt(entries, NOW).content
    assert parts.index(PHOTO) < parts.index(Text("\n\nb"))


def test_entries_without_facts_are_one_text() -> None:
    entries = [PromptEntry((Text("a"),)), PromptEntry((Text("b"),))]
    assert compose_prompt(entries, NOW).content[0] == Text("a\n\nb")


class _Log:
    """A store that records amendments."""

    def __init__(self) -> None:
        self.amended: list[str] = []

    async def amend(self, draft: PromptDraft) -> None:
        contexts = [part.text for part in draft.message.content if isinstance(part, Context)]
        self.amended.append(" ".join(contexts))


@frozen
class _Adding:
    """A contributor that records the stored parts at its start and after its own part is stored."""

    text: str
    log: _Log
    stored_before: list[list[str]]

    async def contribute(self, draft: PromptDraft) -> None:
        self.stored_before.append(list(self.log.amended))
        draft.append(self.text)
        draft.after_store.append(lambda: self.stored_before.append(list(self.log.amended)))


async def test_each_addition_is_stored_before_the_next_contributor_begins(tmp_path: Path) -> None:
    log, seen = _Log(), list[list[str]]()
    contributors = [_Adding("a", log, seen), _Adding("b", log, seen)]
    await Run(contributors, log).prepare(draft_of(tmp_path))  # type: ignore[arg-type]
    assert seen[:2] == [[], ["a"]]
    assert log.amended[-1] == "a b"
    assert seen[2] == log.amended
