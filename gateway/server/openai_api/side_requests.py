"""Recognition of side requests: titles, tags and suggestions that a client requests on its own.

A side request quotes the exchange that has just ended: the person's message on a separate line,
after a label such as `USER: `, and the answer on a later line. One that is sent before the answer
quotes the message that has just begun a conversation, with a label and below other lines. The
wording does not matter.
"""

import time
from bisect import bisect
from collections import deque
from collections.abc import Callable, Iterator

from agent.records import frozen
from gateway.server.openai_api.conversation import ClientConversation

# Clients send side requests within seconds. After that, a quote comes from a person.
_WINDOW_S = 120.0
# Some clients request the title together with the first answer (Open WebUI 0.12).
_BEGIN_WINDOW_S = 30.0
_MAX_EXCHANGES = 50
# Clients may shorten quoted messages, but keep their beginning.
_HEAD_CHARS = 100
_MAX_LABEL_CHARS = 40
# Room for labels and tags between the two quotes.
_GAP_CHARS = 200


@frozen
class _Exchange:
    """A person's message, with the answer as soon as there is one."""

    token: str
    question: str
    answer: str
    at: float

    @property
    def window_s(self) -> float:
        return _WINDOW_S if self.answer else _BEGIN_WINDOW_S


class RecentExchanges:
    """Recent exchanges of clients with Kore's agent."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._exchanges: deque[_Exchange] = deque(maxlen=_MAX_EXCHANGES)

    def begin(self, token: str, conversation: ClientConversation) -> None:
        """Add the message that begins a conversation, before its answer."""
        if not conversation.earlier:
            self._add(token, conversation, "")

    def add(self, token: str, conversation: ClientConversation, answer: str) -> None:
        """Add the exchange that ends with the answer."""
        if answer.strip():
            self._add(token, conversation, answer.strip())

    def _add(self, token: str, conversation: ClientConversation, answer: str) -> None:
        if question := conversation.news[-1].text.strip():
            self._exchanges.append(_Exchange(token, question, answer, self._clock()))

    def is_quoted_in(self, token: str, conversation: ClientConversation) -> bool:
        """Return whether the only message of a conversation quotes a recent exchange."""
        if len(conversation.messages) != 1:
            return False
        text, now = conversation.messages[0].text, self._clock()
        return any(
            exchange.token == token
            and now - exchange.at <= exchange.window_s
            and _quotes(text, exchange)
            for exchange in self._exchanges
        )


def _quotes(text: str, exchange: _Exchange) -> bool:
    if not exchange.answer:
        return any(_has_label(text, place) for place in _places(text, exchange.question))
    answers = list(_places(text, exchange.answer))
    room = len(exchange.question) + _GAP_CHARS
    for place in _places(text, exchange.question):
        following = bisect(answers, place)
        if following < len(answers) and answers[following] - place <= room:
            return True
    return False


def _places(text: str, quote: str) -> Iterator[int]:
    """Yield the positions where a line begins with the quote, or with a label and the quote."""
    head = quote[:_HEAD_CHARS]
    place = text.find(head)
    while place >= 0:
        before = text[max(0, place - _MAX_LABEL_CHARS - 1) : place]
        begins_line = place <= _MAX_LABEL_CHARS or "\n" in before
        end = place + len(head)
        if begins_line and (head != quote or text[end : end + 1] in ("", "\n", "\r")):
            yield place
        place = text.find(head, place + 1)


def _has_label(text: str, place: int) -> bool:
    """Return whether a label precedes a position, with other lines above it."""
    above, line_break, label = text[:place].rpartition("\n")
    return bool(line_break and above.strip() and label.strip())
