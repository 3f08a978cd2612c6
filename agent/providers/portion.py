"""What arrived together is told together: one delta in place of many small ones.

A fast model's server sends a dozen deltas in one packet. Whoever watches gains nothing from
seeing them one by one, and every step on their way would be paid for each.
"""

from collections.abc import Iterable, Iterator

from agent.errors import ProviderError
from agent.events import ModelEvent, TextDelta, ThinkingDelta, ToolCallDelta


def joined(portion: Iterable[ModelEvent]) -> Iterator[ModelEvent]:
    """The same events, neighbouring deltas of one kind as one. What was said before an error is
    told before it is raised."""
    last: ModelEvent | None = None
    pieces: list[str] = []
    try:
        for event in portion:
            if last is not None and _continues(event, last):
                pieces.append(_piece(event))
                last = event
                continue
            if last is not None:
                yield _whole(last, pieces)
            last, pieces = event, [_piece(event)]
    except ProviderError:
        if last is not None:
            yield _whole(last, pieces)
        raise
    if last is not None:
        yield _whole(last, pieces)


def _continues(event: ModelEvent, last: ModelEvent) -> bool:
    kind = type(event)
    if kind is not type(last):
        return False
    if isinstance(event, ToolCallDelta) and isinstance(last, ToolCallDelta):
        return event.id == last.id
    return kind is TextDelta or kind is ThinkingDelta


def _piece(event: ModelEvent) -> str:
    match event:
        case TextDelta(text) | ThinkingDelta(text):
            return text
        case ToolCallDelta(partial_json=piece):
            return piece
    return ""


def _whole(last: ModelEvent, pieces: list[str]) -> ModelEvent:
    if len(pieces) == 1:
        return last
    text = "".join(pieces)
    match last:
        case TextDelta():
            return TextDelta(text)
        case ThinkingDelta(chars=chars):
            return ThinkingDelta(text, chars)
        case ToolCallDelta(id=call_id, name=name):
            return ToolCallDelta(call_id, name, text)
    return last
