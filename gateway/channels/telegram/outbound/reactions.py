"""Reactions on received messages, removed when they are answered.

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

# Limit per chat; reactions on further unanswered messages are not removed.
_MOST_PER_LANE = 20
_MAX_LANES = 1_000


class Reactions:
    """Reactions of one bot.

    They are cosmetic, and skipped while the rate limit is reached or if the chat does not allow
    them. Without an `emoji`, none are shown.
    """

    def __init__(
        self, bot: telegram.Bot, gate: RateLimiter, moves: ChatIdAliases, emoji: str | None
    ) -> None:
        self._bot = bot
        self._gate = gate
        self._moves = moves
        self._emoji = emoji
        self._reactions: defaultdict[str, list[str]] = defaultdict(list)

    async def show_received(self, route: Route, message_id: str | None) -> None:
        """Show that this message was accepted and will be answered."""
        if self._emoji is None or message_id is None:
            return
        if route.lane not in self._reactions and len(self._reactions) >= _MAX_LANES:
            # Forget the oldest chat: it was never answered.
            self._reactions.pop(next(iter(self._reactions)))
        reacted = self._reactions[route.lane]
        if len(reacted) < _MOST_PER_LANE:
            reacted.append(message_id)
            if not await self._show(route, message_id, self._emoji) and message_id in reacted:
                reacted.remove(message_id)

    async def clear_reactions(self, message: OutboundMessage, unanswered: frozenset[str]) -> None:
        """Remove the reactions from answered messages, except `unanswered` ones.

        This includes the last message if an earlier process put the reaction on it.
        """
        if self._emoji is None or message.event_id is None:
            return
        route = message.route
        parts = message.event_id.split(":")
        last = [parts[1]] if len(parts) > 1 else []
        reacted = self._reactions.pop(route.lane, [])
        if remaining := [message_id for message_id in reacted if message_id in unanswered]:
            self._reactions[route.lane] = remaining
        for message_id in dict.fromkeys([*reacted, *last]):
            if message_id not in unanswered:
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
