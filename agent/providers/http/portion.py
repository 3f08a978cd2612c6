"""What arrived together is told together: one delta in place of many small ones.

A fast model's server sends a dozen deltas in one packet. Whoever watches gains nothing from
seeing them one by one, and every step on their way would be paid for each.
"""

from collections.abc import Iterable, Iterator, Sequence

from agent.errors import ProviderError
from agent.events import ModelEvent, TextDelta, ThinkingDelta, ToolCallDelta


def coalesce_deltas(portion: Iterable[ModelEvent]) -> Iterator[ModelEvent]:
    """The same events, neighbouring deltas of one kind as one. What was said before an error is
    told before it is raised."""
    run: list[ModelEvent] = []
    try:
        for event in portion:
            if run and not _continues(event, run[-1]):
                yield _whole(run)
                run = []
            run.append(event)
    except ProviderError:
        if run:
            yield _whole(run)
        raise
    if run:
        yield _whole(run)


def _continues(event: ModelEvent, last: ModelEvent) -> bool:
    kind = type(event)
    if kind is not type(last):
        return False
    if isinstance(event, ToolCallDelta) and isinstance(last, ToolCallDelta):
        return event.id == last.id
    return kind is TextDelta or kind is ThinkingDelta


def _whole(run: Sequence[ModelEvent]) -> ModelEvent:
    """One delta for all of them."""
    last = run[-1]
    if len(run) == 1:
        return last
    match last:
        case TextDelta():
            return TextDelta("".join(map(_piece, run)))
        case ThinkingDelta(chars=chars):
            return ThinkingDelta("".join(map(_piece, run)), chars)
        case ToolCallDelta(id=call_id, name=name):
            return ToolCallDelta(call_id, name, "".join(map(_piece, run)))
    return last


def _piece(event: ModelEvent) -> str:
    match event:
        case TextDelta(text) | ThinkingDelta(text):
            return text
        case ToolCallDelta(partial_json=piece):
            return piece
    return ""
