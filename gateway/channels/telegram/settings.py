"""What one Telegram bot needs to know about itself and its server."""

from dataclasses import field
from urllib.parse import urlsplit

from agent.frozen import frozen

OFFICIAL_SERVER = "https://api.telegram.org"


@frozen
class TelegramSettings:
    """`base_url` is the root of a Bot API server, without `/bot`.

    `name` tells several bots apart; without one the bot's id does. `poll_s` is how long a poll
    may wait for news, `answer_s` how long the server may take for anything else, and on top of a
    poll. After a 409 another poller is left alone for `conflict_s`, longer than its poll lasts.
    Failed polls are repeated after `backoff_s`, doubling up to `backoff_limit_s`.
    """

    token: str = field(repr=False)
    base_url: str = OFFICIAL_SERVER
    name: str | None = None
    poll_s: int = 25
    answer_s: float = 15.0
    connect_s: float = 10.0
    conflict_s: float = 35.0
    backoff_s: float = 1.0
    backoff_limit_s: float = 60.0
    body_limit_bytes: int = 16 * 1024 * 1024

    @property
    def account(self) -> str:
        """Names this bot in routes: stable as long as the bot is the same."""
        bot_id = self.token.partition(":")[0]
        return self.name or (bot_id if bot_id.isdigit() else "bot")

    @property
    def root(self) -> str:
        return self.base_url.rstrip("/")

    @property
    def host(self) -> str:
        """The server without what an address may hold in confidence."""
        return urlsplit(self.root).netloc.rpartition("@")[2] or "the configured server"

    @property
    def silence_s(self) -> float:
        """After this long without a completed poll the connection is given up and rebuilt."""
        return 3.0 * (self.poll_s + self.answer_s)
