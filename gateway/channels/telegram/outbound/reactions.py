"""A reaction on what was taken in, which goes when it is answered.

https://core.telegram.org/bots/api#setmessagereaction
"""

from collections import defaultdict
from contextlib import suppress

import telegram
from telegram import ReactionTypeEmoji
from telegram.error import TelegramError

from gateway.channels.chat_aliases import ChatIdAliases
from gateway.channels.rate_limiter import RateLimiter
from gateway.channels.telegram.ids import telegram_chat_id, telegram_message_id
from gateway.core.messages import OutboundMessage, Route

# Of one chat; whoever writes more before the answer sees some of them stay.
_KEPT = 20
_LANES = 1_000


class Reactions:
    """Cosmetic: where the gate is busy or the chat allows none, nothing is shown. Without an
    `emoji` nothing is ever."""

    def __init__(
        self, bot: telegram.Bot, gate: RateLimiter, moves: ChatIdAliases, emoji: str | None
    ) -> None:
        self._bot = bot
        self._gate = gate
        self._moves = moves
        self._emoji = emoji
        self._shown: defaultdict[str, list[str]] = defaultdict(list)

    async def seen(self, route: Route, message_id: str | None) -> None:
        """This message was taken in, and will be answered."""
        if self._emoji is None or message_id is None:
            return
        if route.lane not in self._shown and len(self._shown) >= _LANES:
            # Of a chat that was never answered nobody misses it.
            self._shown.pop(next(iter(self._shown)))
        shown = self._shown[route.lane]
        if len(shown) < _KEPT:
            shown.append(message_id)
            if not await self._show(route, message_id, self._emoji) and message_id in shown:
                shown.remove(message_id)

    async def answered(self, message: OutboundMessage, left: frozenset[str]) -> None:
        """The answer is there: what was put on its questions goes; also what an earlier process
        put on the last of them. What is `left` to be answered keeps its own."""
        if self._emoji is None or message.event_id is None:
            return
        route = message.route
        told = message.event_id.split(":")
        last = [told[1]] if len(told) > 1 else []
        shown = self._shown.pop(route.lane, [])
        if kept := [message_id for message_id in shown if message_id in left]:
            self._shown[route.lane] = kept
        for message_id in dict.fromkeys([*shown, *last]):
            if message_id not in left:
                await self._show(route, message_id, None)

    async def _show(self, route: Route, message_id: str, emoji: str | None) -> bool:
        target = telegram_message_id(route, message_id, self._moves)
        group = route.chat_id.startswith("-")
        if target is None or not self._gate.try_acquire(route.chat_id, group=group):
            return False
        reaction = [ReactionTypeEmoji(emoji)] if emoji else []
        with suppress(TelegramError, LookupError, TypeError, ValueError):
            await self._bot.set_message_reaction(
                telegram_chat_id(route, self._moves), target, reaction
            )
            return True
        return False
