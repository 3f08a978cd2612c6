"""Opening of the configured bots."""

import os
import time
from collections.abc import Sequence
from types import ModuleType

from agent.proxies.outbound import ensure_usable, proxy_for
from gateway.channels.rate_limiter import RateLimiter
from gateway.channels.spec import ChannelContext
from gateway.channels.telegram.spec import TelegramSection
from gateway.runtime.import_trimming import hidden


def drop_docstrings(library: ModuleType) -> None:
    """Drop the docstrings of the library's classes, which frees 0.7 MB for later imports."""
    for member in vars(library).values():
        if isinstance(member, type) and member.__module__.startswith(f"{library.__name__}."):
            member.__doc__ = None


# The library imports cryptography only for Telegram Passport (8 MB), which nothing here uses. Its
# HTTP client is not used either; it imports httpx, which with click also imports its command line,
# rich and pygments (5 MB).
with hidden("click", "cryptography"):
    import telegram

    drop_docstrings(telegram)
    from gateway.channels.telegram.channel import TelegramChannel
    from gateway.channels.telegram.inbound.poll import OFFSET_TTL_S
    from gateway.channels.telegram.outbound.send import RichSupport
    from gateway.channels.telegram.settings import TelegramSettings


async def open_bots(context: ChannelContext[TelegramSection]) -> Sequence[TelegramChannel]:
    """Return a channel for each bot. Raises `ConfigError` for an unusable proxy."""
    section = context.section
    bots = [(None, section.token), *((bot.name, bot.token) for bot in section.accounts)]
    secret = section.webhook_secret
    proxy = proxy_for(section.base_url, os.environ, section.proxy)
    ensure_usable(proxy)
    rich = RichSupport(messages=section.rich_messages, drafts=section.rich_messages)
    channels = []
    for name, token in bots:
        settings = TelegramSettings(
            token=token.get_secret_value(),
            base_url=section.base_url,
            proxy=proxy,
            name=name,
            owner=context.owner if (context.owner or "").isdigit() else None,
            reaction=None if section.reactions == "off" else section.reactions,
            webhook_url=section.webhook_url if section.mode == "webhook" else None,
            webhook_secret=secret.get_secret_value() if secret else None,
            streaming=section.streaming,
            long_answer_messages=section.long_answer_messages,
            trace=section.trace,
            menu=tuple(context.menu),
        )
        channel = TelegramChannel(
            settings,
            gate=RateLimiter(None if section.rate_limits == "none" else context.rates),
            cursors=await context.cursors(settings.account, time.time() - OFFSET_TTL_S),
            places=context.places,
            memo=context.state,
            rich=rich,
        )
        context.stack.push_async_callback(channel.aclose)
        channels.append(channel)
    return channels
