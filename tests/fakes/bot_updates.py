"""Pending updates of the bot, with the offset semantics of getUpdates.

https://core.telegram.org/bots/api#getupdates
"""

import json
import time
from collections.abc import Mapping
from typing import Any

FIRST_UPDATE_ID = 700_000_001
BATCH_LIMIT = 100
ID_PLACEHOLDER = b"UPDATE_ID"


class UpdateQueue:
    """Unconfirmed updates, oldest first, each as the JSON text to be sent.

    `confirmed_offset` is the highest offset that the bot ever confirmed; `delivered` contains the
    Unix times at which each update was delivered, so that redelivery can be detected.
    """

    def __init__(self) -> None:
        self.confirmed_offset = 0
        self.delivered: dict[int, list[float]] = {}
        self._next_id = FIRST_UPDATE_ID
        self._waiting: dict[int, bytes] = {}

    @property
    def pending(self) -> Mapping[int, bytes]:
        return self._waiting

    def add(self, update: Mapping[str, Any] | str | bytes) -> int:
        """Queue an update and return its id.

        Text is sent verbatim, valid JSON or not, with UPDATE_ID replaced by the id.
        """
        update_id = self._next_id
        self._next_id += 1
        if isinstance(update, Mapping):
            raw = json.dumps({"update_id": update_id, **update}).encode()
        else:
            text = update.encode("utf-8", "surrogatepass") if isinstance(update, str) else update
            raw = text.replace(ID_PLACEHOLDER, str(update_id).encode())
        self._waiting[update_id] = raw
        return update_id

    def restart_ids(self, next_id: int) -> None:
        """Restart the ids; Telegram picks a random new id after a week without updates."""
        self._next_id = next_id

    def confirm(self, offset: int) -> None:
        """Drop confirmed updates; a negative offset retains that many at the end."""
        if offset < 0:
            numbers = list(self._waiting)[offset:]
            offset = numbers[0] if numbers else 0
        if offset <= 0:
            return
        self.confirmed_offset = max(self.confirmed_offset, offset)
        for update_id in [known for known in self._waiting if known < offset]:
            del self._waiting[update_id]

    def batch(self, limit: int) -> list[bytes]:
        """Return the oldest pending updates; they stay queued until they are confirmed."""
        now = time.time()
        chosen = list(self._waiting.items())[: max(1, min(limit, BATCH_LIMIT))]
        for update_id, _ in chosen:
            self.delivered.setdefault(update_id, []).append(now)
        return [raw for _, raw in chosen]

    def drop(self) -> None:
        """Drop all updates, like deleteWebhook with drop_pending_updates."""
        if self._waiting:
            self.confirm(max(self._waiting) + 1)
