"""Makes a conversation shorter: old results of tools first, then a summary of its older part."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from agent.context.cut import SplitPoint, choose
from agent.context.pruning import shorten_old_results
from agent.context.room import MANY
from agent.context.summarizer import DroppedMessages, Summariser
from agent.context.summary import Summary
from agent.context.token_budget import estimate, estimate_text
from agent.errors import ConfigError, LimitReached, ProviderError
from agent.history import close_unanswered_calls, is_valid
from agent.prompts import load_prompt
from agent.records import frozen
from agent.security.taint.taint import TaintState
from agent.types import Message
from agent.usage import UsageMeter

# Of the room for messages: what a conversation takes after it was made shorter, at most if it can.
GOAL = 0.5
# A summary of less than this part of a conversation is not worth a call.
_WORTH = 0.2
# In one turn, while somebody waits: so often may it come to nothing.
_TRIES = 2


@dataclass(slots=True)
class Conversation:
    """What the model is shown: it grows at its end. `trimmed`: older messages exist but left;
    `summary` tells of those before them. `begun` counts those at the end that the turn added
    before a restart; None: all behind the last user message."""

    messages: list[Message]
    trimmed: bool = False
    summary: Summary | None = None
    begun: int | None = None

    @property
    def tokens(self) -> int:
        front = estimate_text(self.summary.front) if self.summary else 0
        return sum(map(estimate, self.messages)) + front


@frozen
class CompactionResult:
    """What it came to. `cut` is None when shortening the results among the first `pruned`
    messages was enough; else `summary` tells of all that the cut took away."""

    pruned: int
    cut: SplitPoint | None
    summary: Summary | None
    before: int
    after: int

    @property
    def summarised(self) -> int:
        return self.cut.gone if self.cut else 0

    def of(self, messages: Sequence[Message]) -> list[Message]:
        return self.cut.kept(messages) if self.cut else shorten_old_results(messages, self.pruned)


async def shorten(
    summariser: Summariser,
    conversation: Conversation,
    goal: int,
    known: DroppedMessages,
    meter: UsageMeter,
) -> CompactionResult | None:
    """Reach `goal` tokens if that can be; None when there is nothing to gain.

    `known` says what else is to be told. Raises `ProviderError`, `LimitReached`, `ConfigError`:
    then there is no summary.
    """
    messages = conversation.messages
    before = conversation.tokens
    cut = choose(messages, goal)
    # A damaged history is mended for each request anew: places in it mean nothing.
    if cut is None or not is_valid([*messages, *close_unanswered_calls(messages, {})]):
        return None
    pruned = pruned_only(conversation, cut)
    if pruned and pruned.after <= goal and len(messages) <= MANY and not known.asked:
        return pruned
    leaving = cut.leaving(messages)
    if sum(map(estimate, leaving)) < before * _WORTH and not known.asked:
        return pruned
    told = replace(known, messages=leaving, before=conversation.summary, goal=goal)
    if conversation.trimmed and told.before is None:
        # No request that is still there was the first one.
        told = replace(told, before=Summary(load_prompt("trimmed"), taint=known.taint))
    summary = await summariser.summarise(told, meter)
    kept = cut.kept(messages)
    summary = replace(summary, todo=_todo(leaving, kept, conversation.summary))
    after = Conversation(kept, summary=summary).tokens
    return CompactionResult(0, cut, summary, before, after) if after < before else pruned


def _todo(leaving: list[Message], kept: list[Message], before: Summary | None) -> str:
    """The model's list, if nothing that is kept has it."""
    from agent.tools.assistant.todo import current

    if current(kept) is not None:
        return ""
    return current(leaving) or (before.todo if before else "")


def pruned_only(conversation: Conversation, cut: SplitPoint) -> CompactionResult | None:
    """What shortening the results before the cut saves; None when that is nothing."""
    before = conversation.tokens
    messages = shorten_old_results(conversation.messages, cut.place)
    after = replace(conversation, messages=messages).tokens
    if after >= before:
        return None
    return CompactionResult(cut.place, None, conversation.summary, before, after)


class CompactionStore(Protocol):
    """Stores what a compaction came to; False when the stored conversation has changed."""

    async def keep(self, shorter: CompactionResult) -> bool: ...


@runtime_checkable
class SharedCompaction(Protocol):
    """A keeper of conversations that others make shorter, too."""

    async def made(self) -> CompactionResult | None:
        """What somebody is at just now, once it is stored; None when nobody is, or in vain."""
        ...


@dataclass(slots=True)
class Compactor:
    """One turn's: makes room while somebody waits for the answer, a bounded number of times."""

    summariser: Summariser
    exposure: TaintState
    meter: UsageMeter
    keeper: CompactionStore
    _tries: int = _TRIES

    async def make_room(self, conversation: Conversation, limit: int) -> CompactionResult | None:
        """The conversation is changed and stored; None when it stays as it is."""
        if self._tries <= 0:
            return None
        self._tries -= 1
        shorter = await self.keeper.made() if isinstance(self.keeper, SharedCompaction) else None
        shorter = shorter or await self._make(conversation, int(limit * GOAL))
        if shorter is None:
            return None
        conversation.messages[:] = shorter.of(conversation.messages)
        conversation.summary = shorter.summary
        if shorter.cut:
            conversation.trimmed = False
        if conversation.tokens <= limit:
            self._tries = _TRIES
        return shorter

    async def _make(self, conversation: Conversation, goal: int) -> CompactionResult | None:
        """Stored; None when there is nothing to gain."""
        known = DroppedMessages((), taint=self.exposure.taint)
        try:
            shorter = await shorten(self.summariser, conversation, goal, known, self.meter)
        except (ProviderError, LimitReached, ConfigError):
            # The answer matters more: old results go, and then the oldest messages.
            cut = choose(conversation.messages, goal)
            shorter = pruned_only(conversation, cut) if cut else None
        if shorter is None or not await self.keeper.keep(shorter):
            return None
        return shorter
