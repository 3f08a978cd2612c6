"""Chats that were given a new id: Kore goes on calling each by the one that it knew first.

So nothing stored under that id has to be rewritten when a group becomes a supergroup: sessions,
what waits, what is to be sent, memory. Only a channel, at the edge, tells the two apart.
"""

from collections.abc import Mapping


class ChatIdAliases:
    """Of one channel, shared by its accounts: a chat's id is the same for all of them.

    `now` are the present ids by the first ones, as they were stored.
    """

    def __init__(self, now: Mapping[str, str] | None = None) -> None:
        self._current = dict(now or {})
        self._canonical = {now: first for first, now in self._current.items()}

    def learn(self, first: str, now: str) -> None:
        first = self.canonical(first)
        if first != now:
            self._current[first] = now
            self._canonical[now] = first

    def canonical(self, chat_id: str) -> str:
        """What Kore calls the chat that the platform calls so."""
        return self._canonical.get(chat_id, chat_id)

    def current(self, chat_id: str) -> str:
        """What the platform calls the chat that Kore calls so."""
        return self._current.get(chat_id, chat_id)

    def names(self, chat_id: str) -> tuple[str, ...]:
        """Every id that people may know the chat by, the present one first."""
        return tuple(dict.fromkeys((self.current(chat_id), chat_id)))
