"""What one Telegram bot needs to know about itself and its server."""

import hashlib
from dataclasses import field
from urllib.parse import quote, urlsplit

from agent.proxies.outbound import OutboundProxy
from agent.records import frozen
from gateway.channels.base import Streaming
from gateway.channels.telegram.spec import OFFICIAL_SERVER, account_of
from gateway.core.records import MenuCommand, Trace


@frozen
class Bot:
    """Who we are: what getMe says."""

    id: int
    username: str


@frozen
class TelegramSettings:
    """`base_url` is the root of a Bot API server, without `/bot`; `proxy` leads to it.

    `name` tells several bots apart; without one the bot's id does. `poll_s` is how long a poll
    may wait for news, `answer_s` how long the server may take for anything else, and on top of a
    poll. After a 409 another poller is left alone for `conflict_s`, longer than its poll lasts.
    Failed polls are repeated after `backoff_s`, doubling up to `backoff_limit_s`; a refused token
    is tried again every `refused_s`, and what could not be stored is fetched again after
    `store_again_s`. `streaming` is how private chats see an answer grow. An answer of more than
    `long_answer_messages`, if it is not 0, is its beginning and a file. `trace` is what stands
    below answers without a choice of the chat.

    `menu` has the chat commands, each with what it does, in English; `owner` is the id of the
    person who is shown all of them, `reaction` an
    emoji that stands on a message until it is answered.

    With a `webhook_url`, the public root of the gateway's HTTP server, Telegram calls us instead.
    It is told to come again when storing takes longer than `hook_answer_s`, and asked every
    `hook_look_s` how it gets on.
    """

    token: str = field(repr=False)
    base_url: str = OFFICIAL_SERVER
    proxy: OutboundProxy | None = None
    name: str | None = None
    poll_s: int = 25
    answer_s: float = 15.0
    connect_s: float = 10.0
    conflict_s: float = 35.0
    backoff_s: float = 1.0
    backoff_limit_s: float = 60.0
    refused_s: float = 60.0
    store_again_s: float = 2.0
    body_limit_bytes: int = 16 * 1024 * 1024
    owner: str | None = None
    reaction: str | None = None
    webhook_url: str | None = None
    webhook_secret: str | None = field(default=None, repr=False)
    hook_answer_s: float = 10.0
    hook_look_s: float = 60.0
    streaming: Streaming = "edits"
    long_answer_messages: int = 0
    trace: Trace = "off"
    menu: tuple[MenuCommand, ...] = ()

    @property
    def account(self) -> str:
        """Names this bot in routes: stable as long as the bot is the same."""
        return self.name or account_of(self.token)

    @property
    def root(self) -> str:
        return self.base_url.rstrip("/")

    @property
    def host(self) -> str:
        """The server without what an address may hold in confidence."""
        return urlsplit(self.root).netloc.rpartition("@")[2] or "the configured server"

    @property
    def hook_path(self) -> str | None:
        """Where Telegram calls this bot at the gateway's HTTP server; None when it is asked."""
        return f"/telegram/{quote(self.account, safe='')}" if self.webhook_url else None

    @property
    def hook_url(self) -> str:
        return f"{(self.webhook_url or '').rstrip('/')}{self.hook_path or ''}"

    @property
    def hook_secret(self) -> str:
        """What Telegram shows with every call. Without one in the configuration it is made of the
        token, which only Telegram and Kore know, and tells nothing of it."""
        derived = hashlib.sha256(f"kore webhook {self.token}".encode()).hexdigest()
        return self.webhook_secret or derived

    def token_refused(self, reason: str) -> tuple[str, str]:
        """What is wrong, and what helps."""
        sentence = (
            f"telegram.token: {self.host} refused it ({reason}); "
            "expected the token that @BotFather gave for this bot"
        )
        return sentence, "Set telegram.token or KORE_TELEGRAM_TOKEN, then restart."

    @property
    def silence_s(self) -> float:
        """After this long without a completed poll the connection is given up and rebuilt."""
        return 3.0 * (self.poll_s + self.answer_s)
