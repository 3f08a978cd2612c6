"""Draft of the message that opens a turn, and the port for its contributors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from agent.context.system_prompt import volatile_facts
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.policy.base import PermissionMode
from agent.security.taint.taint import NOTHING
from agent.turn.context_usage import PromptAudience
from agent.types import Context, Message, Part, Taint, Text

if TYPE_CHECKING:
    from agent.context.compaction.compactor import Conversation
    from agent.turn.hooks import PromptExpansion


@frozen
class PromptEntry:
    """Message that a turn answers, with its own facts and files.

    `facts` are phrases about this message alone: its sender, a quote, the source of a forward, an
    edit.
    """

    parts: Sequence[Part]
    files: Sequence[Part] = ()
    facts: Sequence[str] = ()


def compose_prompt(
    entries: Sequence[PromptEntry],
    now: datetime,
    facts: Sequence[str] = (),
    *,
    notes: Sequence[str] = (),
    updates: Sequence[str] = (),
) -> Message:
    """Return the user message for `entries`, with the time and the shared `facts`.

    Several entries with their own files or facts are numbered and keep them separate. `notes`
    precede the time, `updates` follow it.
    """
    words, files = (
        (entries[0].parts, entries[0].files) if len(entries) == 1 else (_joined(entries), ())
    )
    when = Context(volatile_facts(now, *facts))
    return Message("user", (*words, *map(Context, notes), *files, when, *map(Context, updates)))


def _joined(entries: Sequence[PromptEntry]) -> Sequence[Part]:
    if not any(entry.facts or entry.files for entry in entries):
        text = "\n\n".join(map(_text, entries))
        return (Text(text),) if text else ()
    # A context keeps its position only after text.
    parts: list[Part] = [Text("")]
    for number, entry in enumerate(entries, 1):
        facts = f": {', '.join(entry.facts)}" if entry.facts else ""
        head = render_prompt("messages/joined", number=number, count=len(entries), facts=facts)
        text = _text(entry) if number == 1 else f"\n\n{_text(entry)}"
        parts += (Context(head), Text(text), *entry.files)
    return parts


def _text(entry: PromptEntry) -> str:
    return "".join(part.text for part in entry.parts if isinstance(part, Text))


@dataclass(slots=True, kw_only=True)
class PromptDraft:
    """Prompt of a turn while contributors add to it.

    `message` opens the turn; `conversation` ends with its first version, and `upto` is the number
    of messages that have left it. `taint` is the taint of the conversation, including the beginning
    of this turn. A resumed turn already has its message: contributors only restore state in memory.
    The `after_store` callbacks run once the message is stored.
    """

    session: str
    message: Message
    conversation: "Conversation"
    audience: PromptAudience
    upto: int = 0
    taint: frozenset[Taint] = NOTHING
    is_resumed: bool = False
    # False for sub-agents, whose prompt contains no workspace files.
    reads_workspace: bool = True
    describes_project: bool = True
    may_remember: bool = True
    # None for sub-agents, who have instructions from their caller.
    mode: PermissionMode | None = None
    # Commands in the message that are replaced by prompts, also if the turn is resumed.
    expansions: "list[PromptExpansion]" = field(default_factory=list)
    after_store: list[Callable[[], None]] = field(default_factory=list)

    @property
    def earlier_messages(self) -> Sequence[Message]:
        return self.conversation.messages[:-1]

    def append(self, *texts: str, taint: frozenset[Taint] = NOTHING) -> None:
        """Append contexts to the message."""
        self.message = replace(self.message, content=(*self.message.content, *map(Context, texts)))
        self.taint |= taint


DraftT = TypeVar("DraftT", bound=PromptDraft, contravariant=True)


class PromptContributor(Protocol[DraftT]):
    """Contributor to the prompt of a turn, before the model reads it."""

    async def contribute(self, draft: DraftT) -> None: ...
