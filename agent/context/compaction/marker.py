"""Compaction markers for library users, whose stored messages remain complete."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Protocol, runtime_checkable

from agent.context.compaction.compactor import CompactionResult, Conversation, shorten_old_results
from agent.context.compaction.summarizer import Summary, summary_from_json, summary_to_json
from agent.records import frozen
from agent.types import Message


@frozen
class CompactionMarker:
    """Positions in the list of all messages of a session.

    `summary` covers the messages before `upto`, except `request`; long results before `pruned` are
    shown as one line.
    """

    upto: int = 0
    request: int | None = None
    pruned: int = 0
    summary: Summary | None = None

    def conversation(self, messages: Sequence[Message]) -> Conversation:
        """Return the conversation that the model sees of the whole session."""
        shortened = shorten_old_results(messages, self.pruned)
        front = [] if self.request is None else [shortened[self.request]]
        return Conversation([*front, *shortened[self.upto :]], summary=self.summary)

    def move_by(self, shorter: CompactionResult) -> "CompactionMarker":
        """Return the marker after another compaction, whose positions refer to `conversation`."""
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
    """Optional capability of a history: store compaction markers."""

    async def mark(self, session: str) -> CompactionMarker: ...

    async def set_mark(self, session: str, mark: CompactionMarker) -> None:
        """Store a marker. Called once the messages that it counts are stored."""
        ...


class MarkerRecorder:
    """Compaction store for a library user's turn; `mark` is stored with the turn."""

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
    """Return the marker in the data. Raise KeyError or TypeError if it is invalid."""
    summary_data = data["summary"]
    summary = (
        summary_from_json(summary_data, frozenset(summary_data["taint"])) if summary_data else None
    )
    return CompactionMarker(data["upto"], data["request"], data["pruned"], summary)
