"""How much of a conversation fits the model's window, and what leaves it when it does not.

Trimming is deterministic and causal: what was dropped at one request is decided by the messages
up to that request alone, so the next request drops the same and then continues it byte for byte.
When the window is full it is emptied to `KEEP` at once; between two such cuts the prefix is stable.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.prompts import load
from agent.types import Context, Message, Part, Text, Thinking

KEEP = 0.6
_MESSAGE_OVERHEAD = 4
_OLDEST_CJK = "\u2e80"


@dataclass(frozen=True, slots=True)
class Window:
    """The messages to send, and how many of the oldest ones were left out."""

    messages: Sequence[Message]
    dropped: int
    tokens_before: int
    tokens: int


def estimate_text(text: str) -> int:
    """Tokens of a text: about four letters each, but one for each character of CJK and emoji."""
    if text.isascii():
        return len(text) // 4 + 1
    wide = sum(character >= _OLDEST_CJK for character in text)
    return (len(text) - wide) // 3 + wide + 1


def estimate(message: Message) -> int:
    """Tokens of a message as it is sent; thinking is not sent."""
    texts = [part.text for part in message.content if not isinstance(part, Thinking)]
    texts += [call.name + call.raw for call in message.tool_calls]
    return _MESSAGE_OVERHEAD + sum(map(estimate_text, texts))


def fit(messages: Sequence[Message], limit: int, *, trimmed: bool = False) -> Window:
    """The newest part of a valid conversation that stays within `limit` tokens.

    Cuts fall before user messages; inside a round that is too long by itself they fall before
    replies, and the round's user message stays in front. `trimmed` says that older messages were
    left out before these.
    """
    sizes = [estimate(message) for message in messages]
    start = _start(messages, sizes, limit)
    total = sum(sizes)
    if not start and total <= limit:
        return Window(_noted(messages) if trimmed else messages, 0, total, total)
    kept = list(messages[start:])
    if start and kept[0].role != "user":
        request = next(m for m in reversed(messages[:start]) if m.role == "user")
        kept.insert(0, request)
    if sum(map(estimate, kept)) > limit:
        kept = [_shorten(message, limit // 4) for message in kept]
    noted = _noted(kept) if start or trimmed else kept
    return Window(noted, start, total, sum(map(estimate, noted)))


def _start(messages: Sequence[Message], sizes: Sequence[int], limit: int) -> int:
    """The first message that stays, found by replaying the conversation from its beginning."""
    start = total = 0
    for index in range(len(messages)):
        total += sizes[index]
        last = index + 1 == len(messages)
        # A request goes out before each reply, and after the last message.
        if total <= limit or not (last or messages[index + 1].role == "assistant"):
            continue
        goal = int(limit * KEEP)
        for roles in (("user",), ("user", "assistant")):
            cut, left = start, total
            while cut < index and (left > goal or messages[cut].role not in roles):
                left -= sizes[cut]
                cut += 1
            if messages[cut].role in roles and left <= limit:
                break
        else:
            cut, left = _newest(messages, sizes, index)
        if cut > start and messages[cut].role != "tool":
            start, total = cut, left
    return start


def _newest(messages: Sequence[Message], sizes: Sequence[int], index: int) -> tuple[int, int]:
    """The last place before `index` at which the conversation can be cut at all."""
    cut = index
    while cut and messages[cut].role == "tool":
        cut -= 1
    return cut, sum(sizes[cut : index + 1])


def _noted(messages: Sequence[Message]) -> list[Message]:
    """The same with a word about what is missing, in front of the first user message."""
    first, *rest = messages
    return [replace(first, content=(Context(load("trimmed")), *first.content)), *rest]


def _shorten(message: Message, limit: int) -> Message:
    """The message with the middle of each long text left out."""
    if estimate(message) <= limit:
        return message
    parts: list[Part] = []
    for part in message.content:
        if isinstance(part, Text) and estimate_text(part.text) > limit:
            half = len(part.text) * limit // estimate_text(part.text) // 2
            left_out = f"\n… ({len(part.text) - 2 * half} characters left out) …\n"
            parts.append(Text(part.text[:half] + left_out + part.text[-half:]))
        else:
            parts.append(part)
    return replace(message, content=tuple(parts))
