"""What turns know of people and chats, in this process's memory: who is let in, which language they
are spoken to in, and which chats have a new id.

The process that takes messages in changes that in memory and on disk. Others `refresh` when they
hear of a change, and now and then.
"""

import asyncio
from collections.abc import Callable

from gateway.access.pairing import PairingCodes
from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.delivery.user_language import UserLanguages
from gateway.store.port import Store, Transaction
from gateway.store.repositories.delivery import chats


class PeopleDirectory:
    """`on_changed` is told of what `reload` has found."""

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
        """Have what is stored by now, instead of what is in memory. Raises `StoreError`."""
        # One after the other: an older one must not be the last that is kept.
        async with self._lock:
            await self._database.transact(self._load)

    def reload(self, tx: Transaction) -> None:
        """The same within a transaction that has changed it behind the parts' back."""
        self._load(tx)
        tx.after_commit(self._on_changed)

    def _load(self, tx: Transaction) -> None:
        self._codes.load(tx)
        self._languages.load(tx)
        aliases = chats.all_aliases(tx)

        def learn() -> None:
            # Added to, never replaced: a channel learns of one before it is stored.
            for channel, first, now in aliases:
                self._chat_settings.moves(channel).learn(first, now)

        tx.after_commit(learn)
