"""The model's words without links that could carry something private away."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from agent import events
from agent.events import ModelEvent
from agent.security.taint.link_stream import LinkStream
from agent.types import Message, Part, Text


class OutputLinks:
    """Defuses the events of one model stream, and its message in the same way.

    `earlier` are the turn's replies so far: screens show them in one text. The thoughts in the
    message stay as they are, because vendors sign them; screens show stored thoughts without
    formatting.
    """

    def __init__(self, is_shown: Callable[[str], bool], earlier: Sequence[str]) -> None:
        self._is_shown = is_shown
        self._earlier = earlier
        self._text = LinkStream(is_shown, earlier)
        self._thinking = LinkStream(is_shown)

    def clean(self, event: ModelEvent) -> Iterator[ModelEvent]:
        """Return the event, or what is certain of it by now; the last one brings what was held
        back."""
        match event:
            case events.TextDelta(text):
                if text := self._text.feed(text):
                    yield events.TextDelta(text)
            case events.ThinkingDelta(text):
                yield replace(event, text=self._thinking.feed(text))
            case events.ThinkingEnd(thinking):
                if rest := self._thinking.end():
                    yield events.ThinkingDelta(rest, len(thinking))
                self._thinking = LinkStream(self._is_shown)
                yield events.ThinkingEnd(_whole(LinkStream(self._is_shown), thinking))
            case events.Retry():
                self._text = LinkStream(self._is_shown, self._earlier)
                self._thinking = LinkStream(self._is_shown)
                yield event
            case events.Reply(message):
                if rest := self._text.end():
                    yield events.TextDelta(rest)
                yield replace(event, message=self.clean_message(message))
            case _:
                yield event

    def clean_message(self, message: Message) -> Message:
        """Return the same message when nothing in it has to change."""
        stream = LinkStream(self._is_shown, self._earlier)
        content: list[Part] = [
            replace(part, text=stream.feed(part.text)) if isinstance(part, Text) else part
            for part in message.content
        ]
        if rest := stream.end():
            last = max(n for n, part in enumerate(content) if isinstance(part, Text))
            content[last] = Text(f"{getattr(content[last], 'text', '')}{rest}")
        parts = tuple(part for part in content if part != Text(""))
        return message if parts == message.content else replace(message, content=parts)

    def clean_text(self, text: str) -> str:
        """Return words that are said in place of a reply."""
        return _whole(LinkStream(self._is_shown, self._earlier), text)


def _whole(stream: LinkStream, text: str) -> str:
    return stream.feed(text) + stream.end()
