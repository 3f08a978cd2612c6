"""Link filter for model output, against leaks of private data."""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial

from agent import events
from agent.events import ModelEvent
from agent.security.taint.link_stream import LinkStream
from agent.security.taint.taint import TaintState
from agent.types import Message, Part, Text


class OutputLinks:
    """Link filter for the events and the message of one model stream.

    `earlier` are the turn's replies so far: screens show them as one text. An address from an
    untrusted source is charged to the disclosure budget before it is shown as a link, once for the
    whole turn. Thoughts in the message are unchanged, because vendors sign them; screens show
    stored thoughts without formatting, and streamed thoughts without untrusted links.
    """

    def __init__(self, exposure: TaintState, earlier: Iterable[str]) -> None:
        self._exposure = exposure
        self._earlier = list(earlier)
        self._streamed = ""
        self._unpaid_links: list[str] = []
        self._refused_links: set[str] = set()
        self._text = self._new_text()
        self._thinking = self._new_thinking()

    async def clean(self, model_events: Iterable[ModelEvent]) -> Sequence[ModelEvent]:
        """Return the filtered events, as far as their text is final.

        The last event brings the remainder.
        """
        output: list[ModelEvent] = []
        for event in model_events:
            match event:
                case events.TextDelta(text):
                    if text := await self._paid_text(partial(LinkStream.feed, text=text)):
                        output.append(events.TextDelta(text))
                        self._streamed += text
                case events.ThinkingDelta(text):
                    output.append(replace(event, text=self._thinking.feed(text)))
                case events.ThinkingEnd(thinking):
                    if rest := self._thinking.end():
                        output.append(events.ThinkingDelta(rest, len(thinking)))
                    self._thinking = self._new_thinking()
                    output.append(events.ThinkingEnd(_whole(self._new_thinking(), thinking)))
                case events.Retry():
                    self._void()
                    self._text = self._new_text()
                    self._thinking = self._new_thinking()
                    output.append(event)
                case events.Reply(message):
                    if rest := await self._paid_text(LinkStream.end):
                        output.append(events.TextDelta(rest))
                        self._streamed += rest
                    if event.voids_text:
                        self._void()
                    output.append(replace(event, message=await self.clean_message(message)))
                case _:
                    output.append(event)
        return output

    async def clean_message(self, message: Message) -> Message:
        """Return the filtered message, or the same object if nothing changes."""
        self._text = self._new_text()
        content: list[Part] = []
        for part in message.content:
            if isinstance(part, Text):
                text = await self._paid_text(partial(LinkStream.feed, text=part.text))
                content.append(replace(part, text=text))
            else:
                content.append(part)
        if rest := await self._paid_text(LinkStream.end):
            last = max(n for n, part in enumerate(content) if isinstance(part, Text))
            content[last] = Text(f"{getattr(content[last], 'text', '')}{rest}")
        parts = tuple(part for part in content if part != Text(""))
        return message if parts == message.content else replace(message, content=parts)

    async def clean_text(self, text: str) -> str:
        """Return the filtered text, which replaces a reply."""
        self._text = self._new_text()
        return await self._paid_text(partial(_whole, text=text))

    def _void(self) -> None:
        """Treat the streamed text as an earlier reply, because some screens still show it."""
        if self._streamed:
            self._earlier.append(self._streamed)
            self._streamed = ""

    def _new_text(self) -> LinkStream:
        is_own = self._exposure.is_own
        stream = LinkStream(self._is_shown, self._earlier, is_own=is_own)
        # The links of earlier replies are already paid for.
        self._unpaid_links.clear()
        return stream

    def _new_thinking(self) -> LinkStream:
        return LinkStream(self._exposure.is_own)

    async def _paid_text(self, read: Callable[[LinkStream], str]) -> str:
        """Return the text from the stream once each of its addresses is paid for or refused."""
        while True:
            stream = copy(self._text)
            text = read(stream)
            if not await self._grant():
                self._text = stream
                return text

    def _is_shown(self, address: str) -> bool:
        if self._exposure.is_shown(address):
            return True
        if address not in self._refused_links:
            self._unpaid_links.append(address)
        return False

    async def _grant(self) -> bool:
        """Return whether a requested address may be shown from now on."""
        links = dict.fromkeys(self._unpaid_links)
        self._unpaid_links.clear()
        paid_links = [address for address in links if await self._exposure.grant_link(address)]
        self._refused_links.update(links.keys() - set(paid_links))
        return bool(paid_links)


def _whole(stream: LinkStream, text: str) -> str:
    return stream.feed(text) + stream.end()
