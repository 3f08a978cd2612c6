"""Rate limiter for all messages to a platform under one account."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from agent.records import frozen

_MAX_CHATS = 1024
# After this number of consecutive refusals in different chats, the limit applies to the bot.
_SEVERAL_CHATS = 3


@frozen
class Rate:
    """Rate of `burst` messages at once, then `per_s`; `reserve` of the burst is only for finals."""

    per_s: float
    burst: float
    reserve: float


@frozen
class Rates:
    """Rates for each private chat, each group, and the bot as a whole."""

    private: Rate
    group: Rate
    bot: Rate


_NO_LIMIT = Rates(*[Rate(1.0, 1.0, reserve=0.0)] * 3)


class _Bucket:
    """Token bucket; no tokens are added while the platform's waiting time lasts."""

    def __init__(self, rate: Rate, now: float) -> None:
        self.rate = rate
        self.queue = asyncio.Lock()
        self._tokens = rate.burst
        self._at = now

    def wait_s(self, now: float, tokens: float = 1.0) -> float:
        """Return the time until this many tokens are available; 0 if they already are."""
        if now > self._at:
            self._tokens = min(self.rate.burst, self._tokens + (now - self._at) * self.rate.per_s)
            self._at = now
        missing = tokens - self._tokens
        # Ignore rounding errors.
        return max(0.0, self._at - now) + (missing / self.rate.per_s if missing > 1e-9 else 0.0)

    def take(self) -> None:
        self._tokens -= 1

    def close(self, until: float) -> None:
        """Block until this time; then one token is available."""
        self._at = max(self._at, until)
        self._tokens = 1.0

    def is_idle(self, now: float) -> bool:
        return not self.queue.locked() and self.wait_s(now, self.rate.burst) == 0.0


class RateLimiter:
    """Rate limiter for the messages of one bot.

    Finals wait, first come first served per chat. Cosmetic traffic (typing, stream edits) never
    waits and never takes tokens that the next final needs. Each account has one limiter. Without
    `rates`, it delays messages only when the platform requests a wait.
    """

    def __init__(
        self,
        rates: Rates | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._open = rates is None
        rates = rates or _NO_LIMIT
        self._clock = clock
        self._sleep = sleep
        self._rates = rates
        self._bot = _Bucket(rates.bot, clock())
        self._chats: dict[str, _Bucket] = {}
        # Waiting times of the chats refused since the last successful send.
        self._refused_waits_s: dict[str, float] = {}
        self._sweep_at = _MAX_CHATS

    async def acquire(self, chat_key: str, *, group: bool) -> None:
        """Wait until a final may be sent, and count it."""
        chat = self._chat(chat_key, group)
        async with chat.queue:
            while True:
                while (wait_s := chat.wait_s(self._clock())) > 0:
                    await self._sleep(wait_s)
                # Only chats that could send now enter the bot's queue, so a slow chat does not
                # delay others.
                async with self._bot.queue:
                    while (wait_s := self._bot.wait_s(self._clock())) > 0:
                        await self._sleep(wait_s)
                    if chat.wait_s(self._clock()) == 0:
                        self._take(chat)
                        return

    def acquire_at_once(self, chat_key: str, *, group: bool) -> bool:
        """Admit and count a final if it may be sent now and no other final waits; else return
        False.
        """
        chat = self._chat(chat_key, group)
        if chat.queue.locked() or self._bot.queue.locked() or self._wait_s(chat, 1.0, 1.0) > 0:
            return False
        self._take(chat)
        return True

    def try_acquire(self, chat_key: str, *, group: bool) -> bool:
        """Admit and count a cosmetic request if it may be sent now; else return False."""
        chat = self._chat(chat_key, group)
        if self._open:
            return self._wait_s(chat, 1.0, 1.0) == 0.0
        if chat.queue.locked() or self._bot.queue.locked():
            return False
        if self._wait_s(chat, 1.0 + chat.rate.reserve, 1.0 + self._rates.bot.reserve) > 0:
            return False
        self._take(chat)
        return True

    def wait_s(self, chat_key: str, *, group: bool) -> float:
        """Return the current waiting time for a cosmetic request."""
        chat = self._chat(chat_key, group)
        return self._wait_s(chat, 1.0 + chat.rate.reserve, 1.0 + self._rates.bot.reserve)

    def penalise(self, chat_key: str | None, retry_after_s: float, *, group: bool = False) -> None:
        """Block this chat, or the whole bot if None, for the platform's waiting time."""
        bucket = self._bot if chat_key is None else self._chat(chat_key, group)
        bucket.close(self._clock() + retry_after_s)

    def note_refused(self, chat_key: str, retry_after_s: float, *, group: bool) -> None:
        """Record a refused send with the platform's waiting time.

        The platform does not name the exceeded limit, so the chat is blocked, and the whole bot
        after several refusals in different chats.
        """
        self.penalise(chat_key, retry_after_s, group=group)
        self._refused_waits_s.pop(chat_key, None)
        self._refused_waits_s[chat_key] = retry_after_s
        if len(self._refused_waits_s) > _SEVERAL_CHATS:
            del self._refused_waits_s[next(iter(self._refused_waits_s))]
        if len(self._refused_waits_s) == _SEVERAL_CHATS:
            self.penalise(None, min(self._refused_waits_s.values()))

    def note_passed(self) -> None:
        """Record a successful send: the platform does not block the whole bot."""
        self._refused_waits_s.clear()

    @property
    def waiting(self) -> int:
        """Number of chats with a waiting final."""
        return sum(chat.queue.locked() for chat in self._chats.values())

    def __len__(self) -> int:
        """Return the number of remembered chats."""
        return len(self._chats)

    def _wait_s(self, chat: _Bucket, chat_tokens: float, bot_tokens: float) -> float:
        now = self._clock()
        return max(chat.wait_s(now, chat_tokens), self._bot.wait_s(now, bot_tokens))

    def _take(self, chat: _Bucket) -> None:
        if not self._open:
            chat.take()
            self._bot.take()

    def _chat(self, chat_key: str, group: bool) -> _Bucket:
        bucket = self._chats.get(chat_key)
        if bucket is None:
            if len(self._chats) >= self._sweep_at:
                self._forget_idle()
            bucket = self._chats[chat_key] = _Bucket(
                self._rates.group if group else self._rates.private, self._clock()
            )
        return bucket

    def _forget_idle(self) -> None:
        now = self._clock()
        self._chats = {key: chat for key, chat in self._chats.items() if not chat.is_idle(now)}
        self._sweep_at = max(_MAX_CHATS, 2 * len(self._chats))
