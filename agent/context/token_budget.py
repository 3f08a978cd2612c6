"""Token budget of requests: selection of the messages that fit the model's window.

Trimming is deterministic and causal: what a request drops depends only on the messages up to that
request, so the next request drops the same and continues it byte for byte. A full window is emptied
to the share `KEEP` at once; between two such cuts the prefix is stable.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from agent.prompts import load_prompt
from agent.providers.base import ToolSpec
from agent.providers.pool import OpenModel
from agent.providers.token_estimate import estimate, estimate_all, estimate_text, estimate_tool
from agent.records import frozen
from agent.types import Context, Message, Part, Text

LOWEST, HIGHEST = 0.8, 3.0
# Shorter requests are ignored: the vendor's overhead distorts their count.
TELLING_TOKENS = 500
_NEWEST = 0.3
_STEP = 0.05
_MODELS = 64


class TokenCalibration:
    """Token factors by model, for the lifetime of the process.

    `factor` changes in steps, and only if the measured value differs by more than one step. It
    converges, so that requests are cut at the same position each time.
    """

    def __init__(self) -> None:
        self._exact: OrderedDict[str, float] = OrderedDict()
        self._displayed: dict[str, float] = {}

    def factor(self, model: str) -> float:
        """Return the model's tokens per estimated token; 1 until a value is known."""
        return self._displayed.get(model, 1.0)

    def learn(self, model: str, estimated: int, counted: int) -> None:
        """Record the model's count for a request and our estimate of it."""
        if estimated < TELLING_TOKENS or counted <= 0:
            return
        ratio = min(max(counted / estimated, LOWEST), HIGHEST)
        before = self._exact.get(model, ratio)
        exact = self._exact[model] = before + (ratio - before) * _NEWEST
        self._exact.move_to_end(model)
        if abs(exact - self.factor(model)) > _STEP:
            self._displayed[model] = round(round(exact / _STEP) * _STEP, 2)
        if len(self._exact) > _MODELS:
            oldest, _ = self._exact.popitem(last=False)
            self._displayed.pop(oldest, None)


def counted_as(model: OpenModel) -> str:
    """Return the name under which a model is calibrated."""
    return f"{model.provider.name}/{model.model}"


KEEP = 0.6


@frozen
class TrimmedMessages:
    """Messages to send, and the number of the oldest messages that were dropped.

    `cut`: the messages did not fit unchanged.
    """

    messages: Sequence[Message]
    dropped: int
    tokens_before: int
    tokens: int
    cut: bool = False


def trim_to_budget(
    messages: Sequence[Message], limit: int, *, trimmed: bool = False, front: str | None = None
) -> TrimmedMessages:
    """Return the newest part of a valid conversation that fits `limit` tokens.

    Cuts are before user messages; in a single round that is too long, they are before replies, and
    the round's user message stays in front. If this is not enough, the middle of the longest texts
    is omitted. `trimmed` means that older messages were already dropped; `front` is the text that
    describes them.
    """
    sizes = [message.tokens or estimate(message) for message in messages]
    ahead = estimate_text(front) if front else 0
    total = sum(sizes)
    room = max(limit - ahead - estimate_text(load_prompt("trimmed")), 1)
    remaining, dropped = messages, 0
    if total > room:
        replay = _TrimHistory(messages, sizes, room)
        remaining, dropped = replay.remaining(), replay.start
    notes = [front] if front else []
    if dropped or trimmed:
        notes.append(load_prompt("trimmed"))
    if remaining and notes:
        remaining = _with_notes(remaining, notes)
    tokens = total if remaining is messages else estimate_all(remaining)
    return TrimmedMessages(remaining, dropped, total + ahead, tokens, total > room)


class _Cut(NamedTuple):
    """Position of a cut; `request` is the message that stays in front of it."""

    place: int
    request: int | None
    tokens: int


class _TrimHistory:
    """Trimmed conversation, computed by replaying its requests from the first."""

    def __init__(self, messages: Sequence[Message], sizes: Sequence[int], room: int) -> None:
        self.start = 0
        self._request: int | None = None
        self._messages = messages
        self._trimmed = list(messages)
        self._sizes = list(sizes)
        self._goal = int(room * KEEP)
        self._total = 0
        last = len(messages) - 1
        for index, size in enumerate(sizes):
            self._total += size
            # A request is sent before each reply and after the last message.
            if self._total > room and (index == last or messages[index + 1].role == "assistant"):
                self._cut(index)
                if self._total > room:
                    self._shorten(index)

    def remaining(self) -> list[Message]:
        return [self._trimmed[index] for index in self._indices(len(self._trimmed) - 1)]

    def _indices(self, index: int) -> list[int]:
        front = [] if self._request is None else [self._request]
        return [*front, *range(self.start, index + 1)]

    def _cut(self, index: int) -> None:
        """Reach the goal by whole rounds, else by parts of a round, else leave the newest reply."""
        cuts = self._cuts(index)
        rounds = [cut for cut in cuts if cut.request is None]
        best = next((cut for cut in (*rounds, *cuts) if cut.tokens <= self._goal), None)
        if best is None and cuts:
            best = cuts[-1]
        if best is not None:
            self.start, self._request, self._total = best

    def _cuts(self, index: int) -> list[_Cut]:
        cuts: list[_Cut] = []
        request = self._request
        remaining_tokens = self._total - (0 if request is None else self._sizes[request])
        for place in range(self.start, index + 1):
            role = self._messages[place].role
            if role == "user":
                request = place
            front = request if role == "assistant" else None
            # A cut directly after the request itself would drop nothing.
            if role != "tool" and place > self.start and (front is None or front < place - 1):
                tokens = remaining_tokens + (0 if front is None else self._sizes[front])
                cuts.append(_Cut(place, front, tokens))
            remaining_tokens -= self._sizes[place]
        return cuts

    def _shorten(self, index: int) -> None:
        """Reach the goal by omitting the middle of the longest texts."""
        indices = self._indices(index)
        texts = {number: text_tokens(self._trimmed[number]) for number in indices}
        fixed = self._total - sum(texts.values())
        cap = level(texts.values(), self._goal - fixed)
        for name, tokens in texts.items():
            if tokens > cap:
                self._trimmed[name] = _shorten_longest(self._messages[name], cap)
                self._sizes[name] = estimate(self._trimmed[name])
        self._total = sum(self._sizes[number] for number in indices)


def level(sizes: Iterable[int], room: int) -> int:
    """Return the highest cap for which the sizes, each limited to it, add up to at most `room`."""
    ordered = sorted(sizes)
    for count, size in zip(range(len(ordered), 0, -1), ordered, strict=True):
        if size * count > room:
            return max(room, 0) // count
        room -= size
    return ordered[-1] if ordered else 0


def _with_notes(messages: Sequence[Message], notes: Sequence[str]) -> list[Message]:
    """Return the messages with notes about missing messages before the first user message."""
    first, *rest = messages
    return [replace(first, content=(*map(Context, notes), *first.content)), *rest]


def _texts(message: Message) -> list[Text]:
    return [part for part in message.content if isinstance(part, Text)]


def text_tokens(message: Message) -> int:
    """Estimate the tokens of the texts of a message."""
    return sum(estimate_text(part.text) for part in _texts(message))


def _shorten_longest(message: Message, limit: int) -> Message:
    """Return the message with the middle of each long text omitted."""
    share = limit // max(len(_texts(message)), 1)
    parts: list[Part] = [
        Text(middle_out(part.text, share)) if isinstance(part, Text) else part
        for part in message.content
    ]
    return replace(message, content=tuple(parts))


def middle_out(text: str, limit: int) -> str:
    """Return the beginning and end of the text within `limit` tokens.

    The mark for omitted text may exceed a very small limit.
    """
    size = estimate_text(text)
    if size <= limit:
        return text
    half = len(text) * limit // size // 2
    while True:
        end = len(text) - half
        shortened = f"{text[:half]}\n… ({end - half} characters left out) …\n{text[end:]}"
        if half == 0 or estimate_text(shortened) <= limit:
            return shortened
        # The ends may be denser than the whole text, and the mark needs tokens, too.
        half -= half // 8 + 1


# Share of the window above which a conversation is compacted when no answer is pending.
FULL = 0.75

# Number of messages above which a conversation counts as full, however short they are.
FULL_AT_MESSAGES = 1_000

# Largest share of the window for the files of a conversation.
FOCUS_SHARE = 0.5

SMALLEST = 500

_REPLY_SHARE = 0.2

_REPLY_TOKENS = 8_000


@frozen
class ContextBudget:
    """Budget of a window of `window` tokens in the model's count.

    All other values are estimates; `factor` converts them to the model's count.
    """

    window: int
    prompt: int
    tools: int
    reserve: int
    factor: float = 1.0

    @property
    def fixed(self) -> int:
        """Tokens of each request besides messages."""
        return self.prompt + self.tools

    @property
    def limit(self) -> int:
        """Token limit for messages."""
        return max(int((self.window - self.reserve) / self.factor) - self.fixed, SMALLEST)

    @property
    def full_at_tokens(self) -> int:
        """Tokens of messages above which the window counts as full."""
        full = int(self.window * FULL / self.factor) - self.fixed
        return min(max(full, self.limit // 2), self.limit)

    @property
    def focus_tokens(self) -> int:
        """Token limit for files that a person pointed at or the model read."""
        return max(int(self.window * FOCUS_SHARE / self.factor), SMALLEST)

    def with_factor(self, factor: float) -> "ContextBudget":
        return self if factor == self.factor else replace(self, factor=factor)

    def is_full(self, tokens: int, messages: int) -> bool:
        return tokens > self.full_at_tokens or messages > FULL_AT_MESSAGES


def budget_for(
    window: int,
    system: str,
    tools: Sequence[ToolSpec],
    max_tokens: int | None = None,
    factor: float = 1.0,
) -> ContextBudget:
    """Return the budget; `max_tokens` is the limit for a reply, if set."""
    reserve = min(max_tokens or _REPLY_TOKENS, int(window * _REPLY_SHARE))
    return ContextBudget(
        window, estimate_text(system), sum(map(estimate_tool, tools)), reserve, factor
    )
