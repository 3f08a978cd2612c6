"""Polling loop that fetches updates and confirms them only after they are on disk."""

import asyncio
import logging
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from telegram.error import TelegramError

from agent.errors import KoreError
from gateway.channels.base import Accept, ChannelStatus
from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.channels.state import ChannelState, InMemoryChannelState
from gateway.channels.telegram.api.client import BATCH_LIMIT, TelegramClient
from gateway.channels.telegram.api.log_once import LogOnce
from gateway.channels.telegram.api.request import Refusal, ResponseLost, UnreadableResponse
from gateway.channels.telegram.inbound.decode import DecodeContext
from gateway.channels.telegram.inbound.poll_lock import poll_lock
from gateway.channels.telegram.inbound.update_batch import cursors_of, decode_batch, next_offset_of
from gateway.channels.telegram.settings import Bot, TelegramSettings
from gateway.core.channel_events import Batch, Undecoded

_log = logging.getLogger(__name__)

# Telegram may restart its ids at random after a week without updates; an older offset would then
# hide messages. https://core.telegram.org/bots/api#update
OFFSET_TTL_S = 3 * 24 * 3600.0
_UPDATE_ID = re.compile(rb'"update_id"\s*:\s*(\d{1,18})\b')
# A response may be corrupted in transit; after this many attempts, the update itself is considered
# faulty.
_MAX_GARBLED_TRIES = 3
# A server that returns empty responses immediately must not be polled without a pause.
_MIN_POLL_INTERVAL_S = 0.5
_LOCK_RETRY_INTERVAL_S = 1.0
# Subjects of the log, worded for the message about the recovery.
_POLLS, _STORE, _NAME = "polls come through", "messages are stored", "the bot's name is known"


class Poller:
    """Poller that fetches with `offset`, stores, and confirms with the offset of the next fetch."""

    def __init__(
        self,
        settings: TelegramSettings,
        client: TelegramClient,
        cursors: Mapping[str, str],
        places: ChatSettingsIndex | None = None,
        memo: ChannelState | None = None,
    ) -> None:
        self.status = ChannelStatus("starting")
        # Called when a poll succeeds after failures.
        self.reachable: Callable[[], None] = lambda: None
        self._is_reached = False
        self._settings = settings
        self._client = client
        self._offset = next_offset_of(cursors)
        self._chat_settings = places or ChatSettingsIndex()
        self._state = memo or InMemoryChannelState()
        self._limit = BATCH_LIMIT
        self._delay_s = settings.backoff_s
        self._garbled_polls = 0
        self._trouble_log = LogOnce()
        self._bot: asyncio.Future[Bot] | None = None
        self._completed_at = self._last_update_at = time.monotonic()

    @property
    def decode_context(self) -> DecodeContext | None:
        """Context for decoding; None until the bot's name is known."""
        if self._bot is None or not self._bot.done() or self._bot.cancelled():
            return None
        return DecodeContext(self._bot.result(), self._settings.account, self._chat_settings)

    async def run(self, accept: Accept) -> None:
        """Poll until cancelled."""
        while True:
            with poll_lock(self._settings.token, self._settings.root) as holder:
                if holder is None:
                    return await self._run(accept)
            self._note_trouble(
                f"{holder} on this machine polls for this bot already; stop it, or use a bot of "
                "your own",
                "conflict",
            )
            # No poll of this process is active: the lock is free as soon as the other process ends.
            await asyncio.sleep(_LOCK_RETRY_INTERVAL_S)

    async def _run(self, accept: Accept) -> None:
        self._bot = asyncio.get_running_loop().create_future()
        self._completed_at = self._last_update_at = time.monotonic()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._introduce(self._bot))
                await self._poll(accept)
        finally:
            self.status = replace(self.status, state="stopped")

    async def _introduce(self, me: asyncio.Future[Bot]) -> None:
        """Ask for the bot's name and set the menu, while polls continue."""
        delay_s = self._settings.backoff_s
        while True:
            try:
                if not me.done():
                    me.set_result(await self._client.who_am_i())
                    self._trouble_log.over(_NAME)
                    if self.status.state == "starting":
                        # The first poll may wait a long time for updates, but the connection is
                        # known to work now.
                        self.status = ChannelStatus("polling")
                return await self._client.set_menu(self._state)
            except TelegramError as exc:
                if not me.done():
                    self._report_missing_name(str(exc))
            await asyncio.sleep(self._jitter(delay_s))
            delay_s = min(2 * delay_s, self._settings.backoff_limit_s)

    async def _poll(self, accept: Accept) -> None:
        while True:
            try:
                batch = await self._fetch()
            except Refusal as exc:
                await self._yield_to(exc)
                continue
            except TelegramError as exc:
                await self._back_off(str(exc))
                continue
            if batch is None or await self._hand_over(accept, batch):
                self._delay_s = self._settings.backoff_s

    async def _fetch(self) -> Batch | None:
        """Fetch a batch; return None without updates, or if a smaller fetch must come first."""
        asked_at = time.monotonic()
        # After a failure, the first successful poll must return at once to report the recovery.
        at_once = self.status.state == "retrying"
        try:
            async with asyncio.timeout(self._settings.silence_s):
                updates = await self._client.get_updates(self._offset, self._limit, at_once=at_once)
        except TimeoutError:
            await self._back_off("a poll hung")
            return None
        except UnreadableResponse as exc:
            return self._isolate(exc)
        self._garbled_polls = 0
        self._completed_at = time.monotonic()
        self._trouble_log.over(_POLLS)
        self.status = ChannelStatus("polling", time.time())
        if not self._is_reached:
            self._is_reached = True
            self.reachable()
        if not updates:
            if self._completed_at - self._last_update_at > OFFSET_TTL_S:
                self._offset = None
            self._limit = BATCH_LIMIT
            if not at_once and self._completed_at - asked_at < _MIN_POLL_INTERVAL_S:
                await asyncio.sleep(_MIN_POLL_INTERVAL_S)
            return None
        self._limit = min(2 * self._limit, BATCH_LIMIT)
        self._last_update_at = self._completed_at
        assert self._bot is not None
        # Without the bot's name, messages to it in groups cannot be recognized.
        return self._decode(updates, await asyncio.shield(self._bot))

    def _decode(self, updates: Sequence[Any], me: Bot) -> Batch:
        here = DecodeContext(me, self._settings.account, self._chat_settings)
        batch = decode_batch(updates, here, time.time(), self._offset)
        if next_offset_of(batch.cursors) == self._offset:
            raise ResponseLost("a poll returned something other than updates")
        return batch

    def _isolate(self, trouble: UnreadableResponse) -> Batch | None:
        """Handle an unreadable response: fetch updates one by one, and skip the faulty one.

        Raises the error again while the network may be the cause.
        """
        match = _UPDATE_ID.search(trouble.head)
        if match is None:
            raise trouble
        if self._limit > 1:
            self._limit = 1
            return None
        self._garbled_polls += 1
        if not trouble.too_large and self._garbled_polls < _MAX_GARBLED_TRIES:
            raise trouble
        self._garbled_polls = 0
        update_id = int(match[1])
        raw = trouble.head.decode("utf-8", "replace")
        undecoded = Undecoded(f"update:{update_id}", str(trouble), raw)
        return Batch((), [undecoded], cursors_of(update_id + 1))

    async def _hand_over(self, accept: Accept, batch: Batch) -> bool:
        """Return whether the batch was stored; if not, it is neither confirmed nor lost."""
        try:
            await accept("telegram", self._settings.account, batch)
        except (KoreError, OSError) as exc:
            # The connection works, so updates that could not be stored are fetched again soon.
            self._note_trouble(f"messages could not be stored: {exc}", "storage")
            await asyncio.sleep(self._settings.store_again_s)
            return False
        self._trouble_log.over(_STORE)
        self._offset = next_offset_of(batch.cursors)
        self._completed_at = time.monotonic()
        return True

    async def _yield_to(self, refusal: Refusal) -> None:
        if refusal.code in (401, 404):
            await self._retry_slowly(refusal)
        elif refusal.code == 409 and "webhook" in refusal.description.lower():
            _log.warning("telegram: a webhook was set for this bot; removing it to use polling")
            await self._remove_webhook()
        elif refusal.code == 409:
            self._note_trouble(
                "another program polls for this bot; stop it, or use a bot of your own", "conflict"
            )
            await asyncio.sleep(self._settings.conflict_s)
        elif refusal.code == 429:
            self._note_trouble(str(refusal))
            await asyncio.sleep(refusal.retry_after_s)
        else:
            await self._back_off(str(refusal))

    async def _remove_webhook(self) -> None:
        try:
            await self._client.remove_webhook()
        except TelegramError as exc:
            await self._back_off(str(exc))

    async def _back_off(self, reason: str, state: Any = "retrying") -> None:
        self._note_trouble(reason, state)
        if time.monotonic() - self._completed_at > self._settings.silence_s:
            self._completed_at = time.monotonic()
            self._trouble_log.say(_POLLS, "no poll succeeded for a long time; reconnecting")
            await self._client.rebuild_polls()
        await asyncio.sleep(self._jitter(self._delay_s))
        self._delay_s = min(2 * self._delay_s, self._settings.backoff_limit_s)

    def _note_trouble(self, reason: str, state: Any = "retrying") -> None:
        if state != "storage":
            self._is_reached = False
        # A successful poll does not mean that its updates can be stored.
        self._trouble_log.say(_STORE if state == "storage" else _POLLS, reason)
        self.status = ChannelStatus(state, self.status.last_poll_at, reason)

    def _report_missing_name(self, cause: str) -> None:
        """Report that the bot's name is unknown, unless a poll failed for the same reason."""
        sentence = f"the bot's name could not be requested: {cause}"
        self._trouble_log.say(_NAME, cause, sentence)
        if self.status.state != "refused" and self.status.last_error != cause:
            self.status = ChannelStatus("retrying", self.status.last_poll_at, sentence)

    async def _retry_slowly(self, refusal: Refusal) -> None:
        """Retry a rejected token slowly.

        Erroneous rejections are rare, but a starting server may cause them.
        """
        sentence, hint = self._settings.token_refused(refusal.description)
        if self.status.state != "refused":
            _log.error(
                "telegram:%s receives nothing: %s. %s", self._settings.account, sentence, hint
            )
        self._is_reached = False
        self.status = ChannelStatus("refused", self.status.last_poll_at, f"{sentence}. {hint}")
        await asyncio.sleep(self._settings.refused_s)

    @staticmethod
    def _jitter(delay_s: float) -> float:
        return delay_s * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing
