"""Search in past messages for `memory_search`, limited to the speaker's own conversations."""

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Protocol

from agent.errors import KoreError
from agent.records import frozen
from agent.text.ranking import MAX_SIMILAR, NOISE_SHARE, fused, most_alike, query_terms, scores
from agent.tools.base import MemoryHit, Similarity
from gateway.core.messages import CONSOLE, InboundMessage, Route
from gateway.core.records import SearchHit
from gateway.sessions import lookup
from gateway.store.errors import SearchRefused
from gateway.store.port import Store, Transaction
from gateway.store.repositories.conversations import search, sessions
from gateway.store.repositories.conversations.search import Scope
from gateway.store.repositories.execution.claims import TurnClaim

_log = logging.getLogger(__name__)
# Limit of query words that are searched individually.
_MAX_TERMS = 12
_AROUND_CHARS = 200
# Limit of messages that are compared by meaning.
_NEWEST = 1_000
# Messages read before and after a hit, and the length limits of the texts.
_AROUND_MESSAGES = 5
_MAX_HIT_CHARS = 6_000
_NEIGHBOUR_CHARS = 1_500


class Ownership(Protocol):
    """Ownership of this Kore: `gateway.access.control.AccessControl`."""

    @property
    def owner_id(self) -> str | None: ...
    def is_private_owner(self, message: InboundMessage) -> bool: ...


@frozen
class ConversationSearch:
    """Conversation search for one turn.

    The scope is determined at each search, since others may have joined the turn.
    """

    database: Store
    access: Ownership
    claim: TurnClaim
    similarity: Similarity | None = None

    async def __call__(self, words: str, limit: int) -> Sequence[MemoryHit]:
        """Return the best hits first.

        Raises `KoreError` if search is forbidden or impossible here.
        """
        try:
            while not await self.database.transact(search.enter_older):
                pass
            hits = await self.database.transact(self._search, words, limit)
        except SearchRefused as refused:
            raise lookup.search_error(words, refused) from None
        if self.similarity is not None:
            hits = _fused(hits, await self._similar(words, self.similarity))
        return await self.database.transact(self._with_taint, hits[:limit])

    async def _similar(self, words: str, similarity: Similarity) -> list[SearchHit]:
        """Return recent messages that are similar in meaning, most similar first."""
        messages = await self.database.transact(self._newest)
        try:
            cosines = await similarity(words, [hit.snippet for hit in messages])
        except KoreError as exc:
            _log.warning("conversations are searched by words alone: %s", exc)
            return []
        # Check again, because another person may have joined the turn.
        self._scope()
        hits = [messages[n] for n in most_alike(cosines, MAX_SIMILAR)]
        return [replace(hit, snippet=_beginning(hit.snippet)) for hit in hits]

    async def around(self, session: str, n: int) -> Sequence[MemoryHit]:
        """Return message `n` of a session and its neighbours; empty if it is not the speaker's.

        Raises `KoreError` when reading is forbidden here.
        """
        return await self.database.transact(self._around, session, n)

    def _around(self, tx: Transaction, session: str, n: int) -> list[MemoryHit]:
        messages = search.around(tx, session, n, self._scope(), _AROUND_MESSAGES)
        taint = sessions.taint_of(tx, session) if messages else frozenset()
        return [
            MemoryHit(
                _place(session, number, role, at),
                _shortened(text, _MAX_HIT_CHARS if number == n else _NEIGHBOUR_CHARS),
                taint,
            )
            for number, role, at, text in messages
        ]

    def _scope(self) -> Scope:
        """Return the speaker's own conversations in this chat.

        In private, the owner also gets the terminal's conversations; at the terminal, all of the
        owner's.
        """
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

    def _search(self, tx: Transaction, words: str, limit: int) -> list[SearchHit]:
        # This is checked only now, because another speaker may have joined while the index was
        # updated.
        scope = self._scope()
        own_messages = self._own_messages(tx)

        def find(words: str) -> list[SearchHit]:
            hits = search.find(tx, words, scope, limit + len(own_messages), _AROUND_CHARS)
            return [hit for hit in hits if (hit.session, hit.n) not in own_messages]

        return _ranked(words, find(words), map(find, query_terms(words)[:_MAX_TERMS]))[:limit]

    def _newest(self, tx: Transaction) -> list[SearchHit]:
        own_messages = self._own_messages(tx)
        hits = search.newest(tx, self._scope(), _NEWEST + len(own_messages))
        return [hit for hit in hits if (hit.session, hit.n) not in own_messages]

    def _with_taint(self, tx: Transaction, hits: Sequence[SearchHit]) -> list[MemoryHit]:
        taints = {hit.session: sessions.taint_of(tx, hit.session) for hit in hits}
        return [
            MemoryHit(
                _place(hit.session, hit.n, hit.role, hit.at), hit.snippet, taints[hit.session]
            )
            for hit in hits
        ]

    def _own_messages(self, tx: Transaction) -> set[tuple[str, int]]:
        """Return this turn's own messages, which must not be found as an answer to themselves."""
        return {(self.claim.session, n) for n in sessions.numbers_of(tx, self.claim.turn)}


def _ranked(
    words: str, whole: Sequence[SearchHit], partial: Iterable[Sequence[SearchHit]]
) -> list[SearchHit]:
    """Return messages with all words unchanged, then messages with the rarest of them.

    Each word is searched individually by its stem, since messages may contain longer forms.
    """
    first = {(hit.session, hit.n) for hit in whole}
    snippets: dict[tuple[str, int], list[SearchHit]] = {}
    for hit in (*whole, *chain.from_iterable(partial)):
        snippets.setdefault((hit.session, hit.n), []).append(hit)
    texts = [" ".join(dict.fromkeys(hit.snippet for hit in hits)) for hits in snippets.values()]
    ranks = dict(zip(snippets, scores(query_terms(words), texts), strict=True))
    least = max(ranks.values(), default=0.0) * NOISE_SHARE
    places = [key for key, rank in ranks.items() if key in first or rank >= least]
    places.sort(key=lambda key: (key not in first, -ranks[key], -snippets[key][0].at))
    return [snippets[key][0] for key in places]


def _fused(by_words: Sequence[SearchHit], similar: Sequence[SearchHit]) -> list[SearchHit]:
    hits = {(hit.session, hit.n): hit for hit in (*similar, *by_words)}
    rankings = ([(hit.session, hit.n) for hit in ranking] for ranking in (by_words, similar))
    return [hits[key] for key in fused(*rankings)]


def _beginning(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 2 * _AROUND_CHARS else f"{line[: 2 * _AROUND_CHARS]}…"


def _place(session: str, n: int, role: str, at: float) -> str:
    who = "you" if role == "assistant" else "the person"
    return f"{session}:{n}, {time.strftime('%Y-%m-%d', time.localtime(at))}, {who}"


def _shortened(text: str, limit: int) -> str:
    return (
        text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more characters)"
    )
