"""Aliases of chats whose id has changed: Kore continues to use the first known id.

Therefore nothing stored under that id is rewritten when a group becomes a supergroup: sessions,
queued messages, memory. Only channels translate between the two ids.
"""

from collections.abc import Mapping


class ChatIdAliases:
    """Chat aliases of one channel, shared by its accounts: all use the same chat ids.

    `now` contains the stored map from first ids to current ids.
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
        """Return Kore's id for a chat with this id on the platform."""
        return self._canonical.get(chat_id, chat_id)

    def current(self, chat_id: str) -> str:
        """Return the platform's current id for a chat with this id in Kore."""
        return self._current.get(chat_id, chat_id)

    def names(self, chat_id: str) -> tuple[str, ...]:
        """Return the ids by which people may know the chat, starting with the current id."""
        return tuple(dict.fromkeys((self.current(chat_id), chat_id)))
