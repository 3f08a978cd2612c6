"""Past messages for `memory_search`: the speaker's own conversations in this chat only."""

import time
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Protocol

from agent.errors import KoreError
from agent.records import frozen
from agent.text.ranking import NOISE, query_terms, scores
from agent.tools.base import MemoryHit
from gateway.core.messages import CONSOLE, InboundMessage, Route
from gateway.core.records import SearchHit
from gateway.sessions import lookup
from gateway.store.errors import SearchRefused
from gateway.store.port import Store, Transaction
from gateway.store.repositories.conversations import search, sessions
from gateway.store.repositories.conversations.search import Scope
from gateway.store.repositories.execution.claims import TurnClaim

# So many words of a query are looked for one by one.
_TERMS = 12
_AROUND_CHARS = 200
# Read around a hit: so many messages before and behind it, and of each so much.
_AROUND_MESSAGES = 5
_HIT_CHARS = 6_000
_NEIGHBOUR_CHARS = 1_500


class Ownership(Protocol):
    """Who owns the place: `gateway.access.control.AccessControl`."""

    @property
    def owner_id(self) -> str | None: ...
    def is_private_owner(self, message: InboundMessage) -> bool: ...


@frozen
class ConversationSearch:
    """Searches for one turn. Whose words it finds is decided at each search, since others may have
    joined the turn."""

    database: Store
    access: Ownership
    claim: TurnClaim

    async def __call__(self, words: str, most: int) -> Sequence[MemoryHit]:
        """The best first. Raises `KoreError` when nothing may or can be searched here."""
        try:
            while not await self.database.transact(search.enter_older):
                pass
            return await self.database.transact(self._search, words, most)
        except SearchRefused as refused:
            raise lookup.search_error(words, refused) from None

    async def around(self, session: str, n: int) -> Sequence[MemoryHit]:
        """Message `n` of a session and those beside it; empty when there is none of theirs. Raises
        `KoreError` when nothing may be read here."""
        return await self.database.transact(self._around, session, n)

    def _around(self, tx: Transaction, session: str, n: int) -> list[MemoryHit]:
        messages = search.around(tx, session, n, self._scope(), _AROUND_MESSAGES)
        taint = sessions.taint_of(tx, session) if messages else frozenset()
        return [
            MemoryHit(
                _place(session, number, role, at),
                _shortened(text, _HIT_CHARS if number == n else _NEIGHBOUR_CHARS),
                taint,
            )
            for number, role, at, text in messages
        ]

    def _scope(self) -> Scope:
        """Their own conversations of this chat; for the owner in private the terminal's, too, and
        at the terminal all of the owner's."""
        messages = self.claim.messages
        if len({message.principal for message in messages}) > 1:
            raise KoreError(
                "past conversations are not searched in a conversation of several people: what one "
                "of them said is private to them"
            )
        message = messages[-1]
        if message.channel == CONSOLE:
            return Scope(self.access.owner_id or message.principal, console=True)
        chat = Route(message.channel, message.account, message.chat_id).lane
        return Scope(message.principal, chat, console=self.access.is_private_owner(message))

    def _search(self, tx: Transaction, words: str, most: int) -> list[MemoryHit]:
        # Only now: another speaker may have joined while the index was updated.
        scope = self._scope()
        own_messages = self._own_messages(tx)

        def find(words: str) -> list[SearchHit]:
            hits = search.find(tx, words, scope, most + len(own_messages), _AROUND_CHARS)
            return [hit for hit in hits if (hit.session, hit.n) not in own_messages]

        hits = _ranked(words, find(words), map(find, query_terms(words)[:_TERMS]))[:most]
        taints = {hit.session: sessions.taint_of(tx, hit.session) for hit in hits}
        return [
            MemoryHit(
                _place(hit.session, hit.n, hit.role, hit.at), hit.snippet, taints[hit.session]
            )
            for hit in hits
        ]

    def _own_messages(self, tx: Transaction) -> set[tuple[str, int]]:
        """This turn's own messages: the question is no answer to itself."""
        return {(self.claim.session, n) for n in sessions.numbers_of(tx, self.claim.turn)}


def _ranked(
    words: str, whole: Sequence[SearchHit], partial: Iterable[Sequence[SearchHit]]
) -> list[SearchHit]:
    """Messages that hold all the words as they stand, then those with the rarest of them: each is
    looked for alone, by its stem, since a word that is looked for may go on."""
    first = {(hit.session, hit.n) for hit in whole}
    snippets: dict[tuple[str, int], list[SearchHit]] = {}
    for hit in (*whole, *chain.from_iterable(partial)):
        snippets.setdefault((hit.session, hit.n), []).append(hit)
    texts = [" ".join(dict.fromkeys(hit.snippet for hit in hits)) for hits in snippets.values()]
    ranks = dict(zip(snippets, scores(query_terms(words), texts), strict=True))
    least = max(ranks.values(), default=0.0) * NOISE
    places = [key for key, rank in ranks.items() if key in first or rank >= least]
    places.sort(key=lambda key: (key not in first, -ranks[key], -snippets[key][0].at))
    return [snippets[key][0] for key in places]


def _place(session: str, n: int, role: str, at: float) -> str:
    who = "you" if role == "assistant" else "the person"
    return f"{session}:{n}, {time.strftime('%Y-%m-%d', time.localtime(at))}, {who}"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"
