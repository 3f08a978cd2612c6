"""Webhook receiver: Telegram calls Kore, and drops an update once it is confirmed.

https://core.telegram.org/bots/api#setwebhook
"""

import asyncio
import hmac
import json
import logging
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from telegram.error import TelegramError

from agent.errors import ConfigError, KoreError
from gateway.channels.base import Accept, ChannelStatus
from gateway.channels.chat_settings import ChatSettingsIndex
from gateway.channels.state import ChannelState
from gateway.channels.telegram.api.client import TelegramClient
from gateway.channels.telegram.api.log_once import LogOnce
from gateway.channels.telegram.api.request import Refusal
from gateway.channels.telegram.inbound.decode import DecodeContext
from gateway.channels.telegram.inbound.update_batch import decode_batch, is_update_id
from gateway.channels.telegram.settings import Bot, TelegramSettings
from gateway.core.channel_events import Batch

_log = logging.getLogger(__name__)

TAKEN, WRONG, FORBIDDEN, BUSY = 200, 400, 403, 503
# Limit of updates being stored concurrently; further calls are asked to retry.
MAX_UNDER_WAY = 64
_HOOK, _STORE = "the webhook is set", "messages are stored"


class Webhook:
    """Webhook that is set and checked while running, and whose updates are stored.

    It remains set when Kore stops: Telegram retries pending updates for a day.
    """

    def __init__(
        self,
        settings: TelegramSettings,
        client: TelegramClient,
        places: ChatSettingsIndex,
        memo: ChannelState,
    ) -> None:
        self.status = ChannelStatus("starting")
        # Called when Telegram responds after an outage.
        self.reachable: Callable[[], None] = lambda: None
        self._is_reached = False
        self._settings = settings
        self._client = client
        self._chat_settings = places
        self._memo = memo
        self._trouble_log = LogOnce()
        self._bot: Bot | None = None
        self._accept: Accept | None = None
        self._group: asyncio.TaskGroup | None = None
        self._under_way: dict[int, asyncio.Task[bool]] = {}

    @property
    def decode_context(self) -> DecodeContext | None:
        """Context for decoding; None until the bot's name is known."""
        if self._bot is None:
            return None
        return DecodeContext(self._bot, self._settings.account, self._chat_settings)

    async def run(self, accept: Accept) -> None:
        """Run until cancelled. Raises `ConfigError` if Telegram rejects the address."""
        try:
            async with asyncio.TaskGroup() as group:
                self._accept, self._group = accept, group
                await self._maintain()
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            self._accept = self._group = None
            if self.status.state != "refused":
                self.status = replace(self.status, state="stopped")

    async def handle_call(self, secret: str, body: bytes) -> int:
        """Return the HTTP status: 200 once the update is on disk, 503 if Telegram must retry."""
        expected = self._settings.hook_secret
        if not hmac.compare_digest(secret.encode("utf-8", "replace"), expected.encode()):
            return FORBIDDEN
        update = _update(body)
        if update is None:
            return WRONG
        here = self.decode_context
        if self._accept is None or self._group is None or here is None:
            return BUSY
        number: int = update["update_id"]
        task = self._under_way.get(number)
        if task is None:
            if len(self._under_way) >= MAX_UNDER_WAY:
                return BUSY
            batch = replace(decode_batch([update], here, time.time()), cursors={})
            # Independent of the call, so that an aborted call does not interrupt storing.
            task = self._group.create_task(self._store(self._accept, batch))
            self._under_way[number] = task
            task.add_done_callback(lambda _: self._under_way.pop(number, None))
        finished, _ = await asyncio.wait({task}, timeout=self._settings.hook_answer_s)
        return TAKEN if finished and not task.cancelled() and task.result() else BUSY

    async def _store(self, accept: Accept, batch: Batch) -> bool:
        try:
            await accept("telegram", self._settings.account, batch)
        except (KoreError, OSError) as exc:
            reason = f"messages could not be stored: {exc}"
            self._trouble_log.say(_STORE, reason)
            self.status = replace(self.status, state="storage", last_error=reason)
            return False
        self._trouble_log.over(_STORE)
        self.status = replace(self.status, state="webhook", last_poll_at=time.time())
        return True

    async def _maintain(self) -> None:
        """Set the webhook, and check regularly that it is unchanged and works."""
        delay_s = self._settings.backoff_s
        is_set = False
        while True:
            wait_s = self._settings.hook_look_s
            try:
                if self._bot is None:
                    self._bot = await self._client.who_am_i()
                if not is_set:
                    await self._client.set_webhook()
                    is_set = True
                    self._trouble_log.over(_HOOK)
                    self.status = replace(self.status, state="webhook", last_error=None)
                    await self._client.set_menu(self._memo)
                else:
                    is_set = await self._is_ours()
                    wait_s = wait_s if is_set else self._settings.conflict_s
                delay_s = self._settings.backoff_s
                if not self._is_reached:
                    self._is_reached = True
                    self.reachable()
            except Refusal as exc:
                if exc.code in (401, 404):
                    self._note_refused(exc)
                    wait_s = self._settings.refused_s
                else:
                    self._raise_refused(exc)
                    wait_s = max(delay_s, exc.retry_after_s) if exc.code == 429 else delay_s
                    delay_s = self._retry_delay_s(str(exc), delay_s)
            except TelegramError as exc:
                wait_s, delay_s = delay_s, self._retry_delay_s(str(exc), delay_s)
            await asyncio.sleep(wait_s)

    async def _is_ours(self) -> bool:
        """Check Telegram's state of the webhook; return False if another address is set."""
        info = await self._client.webhook_info()
        if info.url != self._settings.hook_url:
            reason = "another program set or removed this bot's webhook; it is set again"
            self._trouble_log.say(_HOOK, reason)
            self.status = replace(self.status, state="conflict", last_error=reason)
            return False
        failed_at = info.last_error_date.timestamp() if info.last_error_date else 0.0
        error = None
        # Ignore old errors if an update has arrived since.
        if failed_at > (self.status.last_poll_at or 0.0) and info.pending_update_count:
            error = f"Telegram could not reach {self._settings.hook_url}: {info.last_error_message}"
            self._trouble_log.say(_HOOK, error)
        self.status = replace(
            self.status,
            state="retrying" if error else "webhook",
            last_error=error,
            pending=info.pending_update_count,
        )
        return True

    def _retry_delay_s(self, reason: str, delay_s: float) -> float:
        self._is_reached = False
        self._trouble_log.say(_HOOK, reason)
        self.status = replace(self.status, state="retrying", last_error=reason)
        jitter = random.uniform(1.5, 2.0)  # noqa: S311 - spreads load, guards nothing
        return min(jitter * delay_s, self._settings.backoff_limit_s)

    def _note_refused(self, refusal: Refusal) -> None:
        """Record a rejected token, which is retried slowly."""
        sentence, hint = self._settings.token_refused(refusal.description)
        if self.status.state != "refused":
            name = self._settings.account
            _log.error("telegram:%s receives nothing: %s. %s", name, sentence, hint)
        self._is_reached = False
        self.status = replace(self.status, state="refused", last_error=f"{sentence}. {hint}")

    def _raise_refused(self, refusal: Refusal) -> None:
        """Raise `ConfigError` for a rejected address, which the owner must fix."""
        if refusal.code != 400:
            return
        sentence = f"telegram.webhook_url: {self._settings.host} refused it"
        sentence += f" ({refusal.description})"
        hint = "It must be an https address of yours that Telegram can reach."
        self.status = replace(self.status, state="refused", last_error=sentence)
        raise ConfigError(sentence, hint=hint)


def _update(body: bytes) -> dict[str, Any] | None:
    try:
        update = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(update, dict) or not is_update_id(update.get("update_id")):
        return None
    return update
