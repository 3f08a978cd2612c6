"""Compaction of conversations.

A summary replaces the older part of a conversation. Without a summary, each of the oldest tool
results is replaced with one line.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol, runtime_checkable

from agent.context.active_skills import leaving_skills, skill_limit, skill_texts
from agent.context.compaction.person_words import words_limit, words_of, words_tokens
from agent.context.compaction.summarizer import DroppedMessages, Summariser, Summary, summary_limit
from agent.context.edited_files import SKILL, attachment_limit
from agent.context.history_validation import close_unanswered_calls, is_valid
from agent.context.request_prefix import RequestPrefix
from agent.context.token_budget import FULL_AT_MESSAGES
from agent.errors import ConfigError, LimitReached, ProviderError
from agent.prompts import load_prompt, render_prompt
from agent.providers.token_estimate import estimate, estimate_all, estimate_text
from agent.providers.usage import UsageMeter
from agent.records import frozen
from agent.security.taint.taint import TaintState
from agent.types import Message, Text

# Shorter results are not worth a replacement line.
SHORT_CHARS = 600

# The beginning of `prompts/skill_text.md`.
_SKILL = re.compile(r"Skill \S+, in the folder /")
_SKILL_CHARS = 40_000
_WHOLE = re.compile(r"(?:whole text|bytes) in (\S[^)\n]{0,300})\)")


def shorten_old_results(messages: Sequence[Message], upto: int) -> list[Message]:
    """Return the messages with long results among the first `upto` of them shortened."""
    return [*map(shorten_old_result, messages[:upto]), *messages[upto:]]


def shorten_old_result(message: Message) -> Message:
    """Return a long tool result as one line, with its taint; return other messages unchanged."""
    if message.role != "tool":
        return message
    text = message.text
    pictures = any(not isinstance(part, Text) for part in message.content)
    if len(text) <= SHORT_CHARS and not pictures:
        return message
    # A skill's instructions apply to the whole conversation.
    if _SKILL.match(text) and len(text) <= _SKILL_CHARS:
        return message
    file_match = _WHOLE.search(text)
    where = (
        render_prompt("pruned_file", file=file_match[1])
        if file_match
        else load_prompt("pruned_again")
    )
    line = render_prompt("pruned", characters=f"{len(text):,}", where=where)
    return replace(message, content=(Text(line),))


RECENT_ROUNDS = 3


@frozen
class SplitPoint:
    """Position where a conversation is split.

    Messages before `place` are dropped, except the user message `request`, which stays in front.
    """

    place: int
    request: int | None = None

    @property
    def dropped_count(self) -> int:
        """Number of dropped messages."""
        return self.place - (self.request is not None)

    def remaining_messages(self, messages: Sequence[Message]) -> list[Message]:
        front = [] if self.request is None else [messages[self.request]]
        return [*front, *messages[self.place :]]

    def dropped_messages(self, messages: Sequence[Message]) -> list[Message]:
        return [message for at, message in enumerate(messages[: self.place]) if at != self.request]


def choose_split_point(
    messages: Sequence[Message], goal: int, *, keep_least: bool = False
) -> SplitPoint | None:
    """Return the split that preserves as many messages as fit, or None if nothing can be dropped.

    The limits are `goal` tokens and half of the allowed messages; with `keep_least`, at most the
    newest three rounds. If a single round is too long, its request and newest replies remain. The
    remaining messages begin with a user message if `messages` do.
    """
    splits = _newest_rounds(messages) if keep_least else _cuts(messages)
    below = [0, *accumulate(map(estimate, messages))]
    for split in splits:
        front = 0 if split.request is None else estimate(messages[split.request])
        is_short = len(messages) - split.place <= FULL_AT_MESSAGES // 2
        if is_short and front + below[-1] - below[split.place] <= goal:
            return split
    return splits[-1] if splits else None


def _cuts(messages: Sequence[Message]) -> list[SplitPoint]:
    """Return the possible splits, from the most to the fewest remaining messages."""
    cuts: list[SplitPoint] = []
    request: int | None = None
    for at, message in enumerate(messages):
        if message.role == "user":
            request = at
            if at > 0:
                cuts.append(SplitPoint(at))
        elif message.role == "assistant" and request is not None and at > request + 1:
            cuts.append(SplitPoint(at, request))
    return cuts


def _newest_rounds(messages: Sequence[Message]) -> list[SplitPoint]:
    rounds = [at for at, message in enumerate(messages) if message.role == "user"][-RECENT_ROUNDS:]
    cuts = [SplitPoint(at) for at in rounds if at > 0]
    return [*cuts, *(cut for cut in _cuts(messages) if cut.place > rounds[-1])] if rounds else []


# Target size after a compaction, as a share of the room for messages.
GOAL = 0.5

# Share of a conversation below which a summary is not worth a model call.
_MIN_SUMMARISED_SHARE = 0.2

# Limit for failed summaries during one turn, while the person waits for the answer.
_MAX_TRIES = 2


@dataclass(slots=True)
class Conversation:
    """Part of a session that the model sees; new messages are appended.

    `is_trimmed` means that older messages exist but were dropped; `summary` covers the messages
    before these. `turn_message_count` is the number of trailing messages that the turn added before
    a restart; None means all after the last user message.
    """

    messages: list[Message]
    is_trimmed: bool = False
    summary: Summary | None = None
    turn_message_count: int | None = None

    @property
    def tokens(self) -> int:
        front = estimate_text(self.summary.front) if self.summary else 0
        return estimate_all(self.messages) + front


@frozen
class CompactionResult:
    """Compacted conversation.

    `split` is None if shortening the results among the first `shortened_count` messages was enough.
    Otherwise `summary` covers all dropped messages; without `has_summary`, it only quotes people's
    messages among them.
    """

    shortened_count: int
    split: SplitPoint | None
    summary: Summary | None
    tokens_before: int
    tokens_after: int
    has_summary: bool = True

    @property
    def summarised_count(self) -> int:
        return self.split.dropped_count if self.split and self.has_summary else 0

    @property
    def dropped_count(self) -> int:
        """Number of messages that were dropped without a summary."""
        return self.split.dropped_count if self.split and not self.has_summary else 0

    def apply(self, messages: Sequence[Message]) -> list[Message]:
        return (
            self.split.remaining_messages(messages)
            if self.split
            else shorten_old_results(messages, self.shortened_count)
        )


async def shorten(
    summariser: Summariser,
    conversation: Conversation,
    goal: int,
    dropped: DroppedMessages,
    meter: UsageMeter,
) -> CompactionResult | None:
    """Compact the conversation to `goal` tokens if possible; return None if nothing can be saved.

    `dropped` contains the options of the summary. Raise `ProviderError`, `LimitReached` or
    `ConfigError` if no summary can be made.
    """
    if summariser.prefix is not None:
        # Evicted files need no room, and positions are unchanged.
        remaining = list(summariser.prefix.focused(conversation.messages))
        conversation = replace(conversation, messages=remaining)
    messages = conversation.messages
    before = conversation.tokens
    edited = summariser.prefix.edited if summariser.prefix else None
    attached_before = conversation.summary.files if conversation.summary else ()
    paths = edited.paths(messages, attached_before) if edited else []
    goal_for_messages = _goal_for_messages(conversation, goal, has_files=bool(paths))
    split = choose_split_point(messages, goal_for_messages, keep_least=dropped.on_request)
    # Each request repairs an invalid history again, so positions in it are meaningless.
    if split is None or not is_valid([*messages, *close_unanswered_calls(messages, {})]):
        return None
    leaving = split.dropped_messages(messages)
    if estimate_all(leaving) < before * _MIN_SUMMARISED_SHARE and not dropped.on_request:
        return shorten_results_only(conversation, split, goal)
    request = replace(dropped, messages=leaving, before=conversation.summary, goal=goal)
    if conversation.is_trimmed and request.before is None:
        # None of the messages in the requests is the beginning of the conversation.
        request = replace(request, before=Summary(load_prompt("trimmed"), taint=dropped.taint))
    if summariser.prefix is not None:
        visible = summariser.prefix.visible_messages(
            messages,
            conversation.summary.front if conversation.summary else None,
            is_trimmed=conversation.is_trimmed,
            least=split.place,
        )
        request = replace(request, visible=visible)
    summary = await summariser.summarise(request, meter)
    remaining = split.remaining_messages(messages)
    summary = replace(summary, todo=_todo(leaving, remaining, conversation.summary))
    skills = leaving_skills(leaving, remaining, attached_before, goal)
    summary = replace(summary, files=skills)
    if edited is not None and paths:
        attached = await edited.attach(paths, goal)
        taint = summary.taint | attached.taint
        summary = replace(summary, files=(*skills, *attached.files), taint=taint)
    after = Conversation(remaining, summary=summary).tokens
    if after >= before:
        return shorten_results_only(conversation, split, goal)
    return CompactionResult(0, split, summary, before, after)


def _goal_for_messages(conversation: Conversation, goal: int, *, has_files: bool) -> int:
    """Return the room for the remaining messages, excluding the description of the dropped
    messages.
    """
    before = conversation.summary.words if conversation.summary else ()
    words = words_tokens([*before, *words_of(conversation.messages)])
    files = attachment_limit(goal) if has_files else 0
    skills = min(_skill_tokens(conversation), skill_limit(goal))
    return goal - min(words, words_limit(goal)) - summary_limit(goal) - files - skills


def _skill_tokens(conversation: Conversation) -> int:
    """Return the tokens of the conversation's skill texts, which outlast their messages."""
    attached = conversation.summary.files if conversation.summary else ()
    texts = {file.path: file.text for file in attached if file.path.startswith(SKILL)}
    texts |= {f"{SKILL}{name}": text for name, text in skill_texts(conversation.messages)}
    return sum(map(estimate_text, texts.values()))


def _todo(leaving: list[Message], remaining: list[Message], before: Summary | None) -> str:
    """Return the model's todo list, or '' if a remaining message contains it."""
    from agent.tools.assistant.todo import current

    if current(remaining) is not None:
        return ""
    return current(leaving) or (before.todo if before else "")


def shorten_results_only(
    conversation: Conversation, split: SplitPoint, goal: int
) -> CompactionResult | None:
    """Shorten the oldest results before the split until `goal` is reached.

    Return None if nothing is saved.
    """
    before = after = conversation.tokens
    count = 0
    for at, message in enumerate(conversation.messages[: split.place]):
        if after <= goal:
            break
        saved = estimate(message) - estimate(shorten_old_result(message))
        if saved > 0:
            after, count = after - saved, at + 1
    if count == 0:
        return None
    return CompactionResult(count, None, conversation.summary, before, after)


def shorten_without_summary(
    summariser: Summariser, conversation: Conversation, goal: int, dropped: DroppedMessages
) -> CompactionResult | None:
    """Compact the conversation to `goal` tokens without a model call.

    Old results are shortened; if that is not enough, the oldest messages are dropped, except the
    text that people wrote. Return None if nothing can be saved.
    """
    messages = conversation.messages
    newest = choose_split_point(messages, goal // 2, keep_least=True)
    split = choose_split_point(messages, _goal_for_messages(conversation, goal, has_files=False))
    is_damaged = not is_valid([*messages, *close_unanswered_calls(messages, {})])
    if newest is None or split is None or is_damaged:
        return None
    pruned = shorten_results_only(conversation, newest, goal)
    if pruned is not None and pruned.tokens_after <= goal:
        return pruned
    before = conversation.summary or Summary("")
    note = load_prompt("trimmed").strip()
    text = before.text if note in before.text else f"{before.text}\n\n{note}".strip()
    leaving = replace(dropped, messages=split.dropped_messages(messages), before=before, goal=goal)
    remaining = split.remaining_messages(messages)
    summary = replace(
        summariser.with_words(text, leaving),
        todo=_todo(list(leaving.messages), remaining, conversation.summary),
        files=before.files,
    )
    after = Conversation(remaining, summary=summary).tokens
    if after >= conversation.tokens:
        return pruned
    return CompactionResult(0, split, summary, conversation.tokens, after, has_summary=False)


class CompactionStore(Protocol):
    """Storage for compactions; `keep` returns False if the stored conversation has changed."""

    async def keep(self, shorter: CompactionResult) -> bool: ...


@runtime_checkable
class SharedCompaction(Protocol):
    """Optional capability of a `CompactionStore`: other tasks also compact the conversation."""

    async def made(self) -> CompactionResult | None:
        """Return another task's compaction once it is stored; None without one or on failure."""
        ...


@runtime_checkable
class PrefixStore(Protocol):
    """Optional capability of a `CompactionStore`: compact the conversation after the turn."""

    def remember_prefix(self, prefix: RequestPrefix) -> None: ...


@dataclass(slots=True)
class Compactor:
    """Compaction during a turn, while the person waits; failed summaries are limited in number.

    Hooks may prevent it: `may_compact` is called before each compaction.
    """

    summariser: Summariser
    exposure: TaintState
    meter: UsageMeter
    keeper: CompactionStore
    may_compact: Callable[[], Awaitable[bool]] | None = None
    _tries: int = _MAX_TRIES

    async def make_room(self, conversation: Conversation, limit: int) -> CompactionResult | None:
        """Compact the conversation in place and store it; return None if it is unchanged."""
        shorter = await self.keeper.made() if isinstance(self.keeper, SharedCompaction) else None
        if shorter is None and (self.may_compact is None or await self.may_compact()):
            shorter = await self._make(conversation, int(limit * GOAL))
        if shorter is None:
            return None
        conversation.messages[:] = shorter.apply(conversation.messages)
        conversation.summary = shorter.summary
        if shorter.summary is not None:
            # Files that were read again for the summary may add taint to the turn.
            self.exposure.taint |= shorter.summary.taint
        if shorter.split:
            conversation.is_trimmed = False
        return shorter

    async def _make(self, conversation: Conversation, goal: int) -> CompactionResult | None:
        """Compact and store; return None if nothing can be saved."""
        dropped = DroppedMessages((), taint=self.exposure.taint)
        shorter = await self._summarised(conversation, goal, dropped) if self._tries > 0 else None
        # The answer has priority: shorten old results, then drop old messages except people's text.
        shorter = shorter or shorten_without_summary(self.summariser, conversation, goal, dropped)
        if shorter is None or not await self.keeper.keep(shorter):
            return None
        return shorter

    async def _summarised(
        self, conversation: Conversation, goal: int, dropped: DroppedMessages
    ) -> CompactionResult | None:
        """Return a compaction with a summary; None if nothing is saved or the summary fails."""
        self._tries -= 1
        try:
            shorter = await shorten(self.summariser, conversation, goal, dropped, self.meter)
        except (ProviderError, LimitReached, ConfigError):
            return None
        self._tries = _MAX_TRIES
        return shorter
