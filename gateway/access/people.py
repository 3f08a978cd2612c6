"""In-memory directory of people and chats: members, languages, and new ids of chats.

The process that accepts messages changes it in memory and on disk. Other processes call `refresh`
after a notice of a change, and periodically.
"""

import asyncio
from collections.abc import Callable

from gateway.access.pairing import PairingCodes
from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.delivery.user_language import UserLanguages
from gateway.store.port import Store, Transaction
from gateway.store.repositories.delivery import chats


class PeopleDirectory:
    """Members, languages and chat aliases in memory.

    `on_changed` is called after the commit of a `reload`.
    """

    def __init__(
        self,
        *,
        database: Store,
        codes: PairingCodes,
        languages: UserLanguages,
        chat_settings: ChatSettingsIndex,
        on_changed: Callable[[], None],
    ) -> None:
        self._database = database
        self._codes = codes
        self._languages = languages
        self._chat_settings = chat_settings
        self._on_changed = on_changed
        self._lock = asyncio.Lock()

    async def refresh(self) -> None:
        """Reload the stored values. Raises `StoreError`."""
        # Serialized, so that an older result never overwrites a newer one.
        async with self._lock:
            await self._database.transact(self._load)

    def reload(self, tx: Transaction) -> None:
        """Reload within a transaction that has changed the tables directly."""
        self._load(tx)
        tx.after_commit(self._on_changed)

    def _load(self, tx: Transaction) -> None:
        self._codes.load(tx)
        self._languages.load(tx)
        aliases = chats.all_aliases(tx)

        def learn() -> None:
            # Add, never replace: a channel learns of an alias before it is stored.
            for channel, first, now in aliases:
                self._chat_settings.moves(channel).learn(first, now)

        tx.after_commit(learn)
