"""Settings of one Telegram bot and its server."""

import hashlib
from dataclasses import field
from urllib.parse import quote, urlsplit

from agent.proxies.outbound import OutboundProxy
from agent.records import frozen
from gateway.channels.base import Streaming
from gateway.channels.telegram.spec import OFFICIAL_SERVER, account_of
from gateway.core.platform_limits import FileLimits, TextLimit
from gateway.core.records import MenuCommand, Trace


@frozen
class Bot:
    """Identity of the bot, from getMe."""

    id: int
    username: str


@frozen
class TelegramSettings:
    """Settings of one bot.

    `base_url` is the root of a Bot API server, without `/bot`; `proxy` leads to it.

    `name` distinguishes several bots; by default, the bot's id does. `poll_s` limits a poll's wait
    for updates; `answer_s` limits any other response, and is added to polls. After a 409, the bot
    leaves polling to the other program for `conflict_s`, which is longer than that program's poll.
    Failed polls are repeated after `backoff_s`, doubling up to `backoff_limit_s`; a refused token
    is retried every `refused_s`; messages that could not be stored are fetched again after
    `store_again_s`. `streaming` is the display of growing answers in private chats. An answer of
    more than `long_answer_messages`, unless 0, becomes its beginning and a file. `trace` is the
    default detail of the trace below answers.

    `menu` contains the chat commands with English descriptions; `owner` is the id of the person who
    sees all of them; `reaction` is an emoji on messages until they are answered.

    With a `webhook_url`, the public root of the gateway's HTTP server, Telegram calls Kore instead.
    It is asked to retry if storing takes longer than `hook_answer_s`; the webhook's state is
    checked every `hook_look_s`.
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
        """Stable name of this bot in routes."""
        return self.name or account_of(self.token)

    @property
    def root(self) -> str:
        return self.base_url.rstrip("/")

    @property
    def host(self) -> str:
        """Name of the server, without confidential parts of the address."""
        return urlsplit(self.root).netloc.rpartition("@")[2] or "the configured server"

    @property
    def hook_path(self) -> str | None:
        """Path for Telegram's calls at the gateway's HTTP server; None if the bot polls."""
        return f"/telegram/{quote(self.account, safe='')}" if self.webhook_url else None

    @property
    def hook_url(self) -> str:
        return f"{(self.webhook_url or '').rstrip('/')}{self.hook_path or ''}"

    @property
    def hook_secret(self) -> str:
        """Secret that Telegram sends with every call.

        By default it is derived from the token, which only Telegram and Kore know, and does not
        reveal it.
        """
        derived = hashlib.sha256(f"kore webhook {self.token}".encode()).hexdigest()
        return self.webhook_secret or derived

    def token_refused(self, reason: str) -> tuple[str, str]:
        """Return the error and its fix."""
        sentence = (
            f"telegram.token: {self.host} refused it ({reason}); "
            "expected the token that @BotFather gave for this bot"
        )
        return sentence, "Set telegram.token or KORE_TELEGRAM_TOKEN, then restart."

    @property
    def file_limits(self) -> FileLimits:
        """Limits of the Bot API server: core.telegram.org/bots/api#sending-files"""
        return FileLimits(
            file_bytes=(50 if self.root == OFFICIAL_SERVER else 2000) * 2**20,
            photo_bytes=10 * 2**20,
            # Telegram allows 1024; the rest is for the note of a repeat.
            caption=TextLimit(900, "utf16"),
            album_files=10,
            album_kinds=(
                frozenset({"photo", "video"}),
                frozenset({"document"}),
                frozenset({"audio"}),
            ),
        )

    @property
    def silence_s(self) -> float:
        """Time without a completed poll after which the connection is rebuilt."""
        return 3.0 * (self.poll_s + self.answer_s)
