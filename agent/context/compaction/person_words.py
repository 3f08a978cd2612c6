"""Verbatim quotes of people's messages that compaction drops, within a token limit."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise

from agent.context.token_budget import level, middle_out
from agent.providers.token_estimate import estimate_text
from agent.types import Message

# Token limit for people's text; in a small window, a share of the goal applies.
MAX_TOKENS = 20_000
_SHARE = 0.5

# A shorter excerpt of a piece is not informative.
_MIN_TOKENS = 40

# Share of the limit for the oldest messages, when whole messages are dropped.
_OLDEST_SHARE = 0.25

GAP = "…"

# Smallest pieces first. Sentences and list items are short, whereas machine output and pasted text
# consist of few, long pieces.
_SENTENCE = re.compile(r"(?<=[.!?。！？])(?=\s)|\n\s*\n|\n(?=\s{0,8}(?:[-*•]|\d{1,3}[.)])\s)")
_PARAGRAPH = re.compile(r"\n\s*\n")


def words_limit(goal: int) -> int:
    """Return the token limit for people's text in a conversation of `goal` tokens."""
    return min(MAX_TOKENS, int(goal * _SHARE))


def words_of(messages: Sequence[Message]) -> list[str]:
    """Return the text of each user message. Tainted messages were not written by the person."""
    own = (message for message in messages if message.role == "user" and not message.taint)
    return [text for message in own if (text := message.text.strip())]


def words_tokens(words: Sequence[str]) -> int:
    return sum(map(_tokens, words))


def fit_words(words: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return the texts, shortened to `limit` tokens.

    The middle of the longest pieces is cut: first of sentences and list items, then of paragraphs,
    then of messages. If the pieces would become too short, the messages between the oldest and the
    newest are dropped.
    """
    if words_tokens(words) <= limit:
        return tuple(words)
    for split in (_sentences, _paragraphs, _whole):
        pieces = [split(text) for text in words]
        sizes = [estimate_text(piece) for item in pieces for piece in item]
        cap = level(sizes, limit - 2 * len(words))
        if cap >= _MIN_TOKENS:
            return tuple("".join(middle_out(piece, cap) for piece in item) for item in pieces)
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
    # A gap from an earlier compaction is dropped or coincides with this gap.
    return (*(text for text in oldest if text != GAP), GAP, *(w for w in newest[::-1] if w != GAP))


def _tokens(text: str) -> int:
    """Return the tokens of a text with the separator between two messages."""
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
