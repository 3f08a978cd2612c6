"""What people wrote in messages that leave the window: word for word, as far as there is room."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from agent.context.token_budget import estimate_text, level, middle_out
from agent.types import Message

# What people wrote may take so much of a window, and in a small one this share of the goal.
MOST_TOKENS = 20_000
_SHARE = 0.5

# A piece that is cut down to less says nothing any more.
_LEAST_TOKENS = 40

# Of the room, when whole messages have to go: what the oldest may take.
_OLDEST_SHARE = 0.25

GAP = "…"

# The smallest pieces first. A sentence or an item of a list is short; what machines print and
# what people paste has few of them, and is long.
_SENTENCE = re.compile(r"(?<=[.!?。！？])(?=\s)|\n\s*\n|\n(?=\s{0,8}(?:[-*•]|\d{1,3}[.)])\s)")
_PARAGRAPH = re.compile(r"\n\s*\n")


def words_limit(goal: int) -> int:
    """The tokens that people's words may take in a conversation of `goal` tokens."""
    return min(MOST_TOKENS, int(goal * _SHARE))


def words_of(messages: Sequence[Message]) -> list[str]:
    """What the person wrote in each message. What came with taint is not the person's."""
    own = (one for one in messages if one.role == "user" and not one.taint)
    return [text for message in own if (text := message.text.strip())]


def words_tokens(words: Sequence[str]) -> int:
    return sum(map(_tokens, words))


def fit_words(words: Sequence[str], limit: int) -> tuple[str, ...]:
    """The words within `limit` tokens.

    When they are too many, the longest pieces lose their middle: of sentences and list items, then
    of paragraphs, then of messages. When even that leaves no sense, messages go, those between the
    oldest and the newest.
    """
    if words_tokens(words) <= limit:
        return tuple(words)
    for split in (_sentences, _paragraphs, _whole):
        pieces = [split(text) for text in words]
        sizes = [estimate_text(piece) for one in pieces for piece in one]
        cap = level(sizes, limit - 2 * len(words))
        if cap >= _LEAST_TOKENS:
            return tuple("".join(middle_out(piece, cap) for piece in one) for one in pieces)
    return _oldest_and_newest([middle_out(text, limit // 4) for text in words], limit)


def _oldest_and_newest(words: Sequence[str], limit: int) -> tuple[str, ...]:
    room = limit - _tokens(GAP)
    oldest: list[str] = []
    room_for_oldest = int(room * _OLDEST_SHARE)
    for text in words:
        room_for_oldest -= _tokens(text)
        if room_for_oldest < 0:
            break
        oldest.append(text)
    room -= words_tokens(oldest)
    newest: list[str] = []
    for text in reversed(words[len(oldest) :]):
        room -= _tokens(text)
        if room < 0:
            break
        newest.append(text)
    # The gap of an earlier time is one of those that leave, or stands where this one would.
    return (*(one for one in oldest if one != GAP), GAP, *(w for w in newest[::-1] if w != GAP))


def _tokens(text: str) -> int:
    """With what stands between two messages."""
    return estimate_text(text) + 2


def _pieces(pattern: re.Pattern[str]) -> Callable[[str], list[str]]:
    def split(text: str) -> list[str]:
        ends = [0, *(match.end() for match in pattern.finditer(text)), len(text)]
        return [text[a:b] for a, b in pairwise(ends) if a < b]

    return split


def _whole(text: str) -> list[str]:
    return [text]


_sentences = _pieces(_SENTENCE)
_paragraphs = _pieces(_PARAGRAPH)
