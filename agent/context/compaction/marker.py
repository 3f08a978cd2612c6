"""How far a library user's conversation is told in a summary; the messages themselves stay."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol, runtime_checkable

from agent.context.compaction.compactor import CompactionResult, Conversation, shorten_old_results
from agent.context.compaction.summarizer import Summary, summary_from_json, summary_to_json
from agent.records import frozen
from agent.types import Message


@frozen
class CompactionMarker:
    """Places in a session's whole list of messages: `summary` tells of those before `upto` but for
    `request`; long results before `pruned` are shown as a line."""

    upto: int = 0
    request: int | None = None
    pruned: int = 0
    summary: Summary | None = None

    def conversation(self, messages: Sequence[Message]) -> Conversation:
        """What the model is shown of the whole session."""
        shortened = shorten_old_results(messages, self.pruned)
        front = [] if self.request is None else [shortened[self.request]]
        return Conversation([*front, *shortened[self.upto :]], summary=self.summary)

    def move_by(self, shorter: CompactionResult) -> "CompactionMarker":
        """What `shorter` makes of it: its places are those of `conversation`."""
        split = shorter.split
        if split is None:
            return replace(
                self, pruned=max(self.pruned, self._place(shorter.shortened_count - 1) + 1)
            )
        upto = max(self.upto, self._place(split.place - 1) + 1)
        request = None if split.request is None else self._place(split.request)
        return CompactionMarker(upto, request, self.pruned, shorter.summary)

    def _place(self, place: int) -> int:
        if self.request is None:
            return self.upto + place
        return self.upto + place - 1 if place else self.request


@runtime_checkable
class MarkerStore(Protocol):
    """A history that also keeps marks."""

    async def mark(self, session: str) -> CompactionMarker: ...

    async def set_mark(self, session: str, mark: CompactionMarker) -> None:
        """Called when the messages that it counts are stored."""
        ...


class MarkerRecorder:
    """Compaction store of a library user's turn; `mark` is stored with the turn."""

    def __init__(self, mark: CompactionMarker) -> None:
        self.mark = mark

    async def keep(self, shorter: CompactionResult) -> bool:
        self.mark = self.mark.move_by(shorter)
        return True


def mark_to_json(mark: CompactionMarker) -> dict[str, Any]:
    summary = mark.summary
    summary_data = summary_to_json(summary) | {"taint": sorted(summary.taint)} if summary else None
    return {**asdict(mark), "summary": summary_data}


def mark_from_json(data: Mapping[str, Any]) -> CompactionMarker:
    """Raises KeyError or TypeError when the data is no mark."""
    summary_data = data["summary"]
    summary = (
        summary_from_json(summary_data, frozenset(summary_data["taint"])) if summary_data else None
    )
    return CompactionMarker(data["upto"], data["request"], data["pruned"], summary)
