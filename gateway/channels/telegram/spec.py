"""Definition of the Telegram channel."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, Strict

from agent.errors import ConfigError
from agent.i18n import t
from gateway.channels.rate_limiter import Rate, Rates
from gateway.channels.spec import (
    ChannelIdentity,
    ChannelSpec,
    Invitation,
    RateLimits,
    SetupStep,
    deferred,
)
from gateway.config.channel_section import ChannelAccount, ChannelSection, ChatSection
from gateway.config.setting import Setting
from gateway.config.value_types import Flag, ProxyUrl, Url

OFFICIAL_SERVER = "https://api.telegram.org"


def _server_url(text: str) -> str:
    """Return the root of a Bot API server, without the `/bot` that libraries expect after it."""
    return text.removesuffix("/bot")


def _bot_token(token: SecretStr) -> SecretStr:
    """Accept an empty token, and the shorter tokens of local servers and emulators."""
    text = token.get_secret_value()
    if text and not re.fullmatch(r"[0-9]+:[\x21-\x7e]+", text):
        raise ValueError(t("a token from @BotFather, such as 123456789:AAF0…"))
    return token


def _sender(value: Any) -> Any:
    """Accept a numeric id, or "*" for everyone; another person could take over a name."""
    if value == "*" or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,20}", value):
        return value
    raise ValueError(t('a numeric id (not a name), or "*" for everyone'))


def _chat(text: str) -> str:
    if not re.fullmatch(r"-?[0-9]{1,20}(/[0-9]{1,20})?", text):
        raise ValueError(t('"-100123" (a chat) or "-100123/45" (a topic in it)'))
    return text


BotToken = Annotated[SecretStr, AfterValidator(_bot_token)]
SenderId = Annotated[str, BeforeValidator(_sender)]


class TelegramAccount(ChannelAccount):
    """Settings of an additional bot."""

    token: BotToken
    allow_from: Annotated[tuple[SenderId, ...], Setting(reload="at_once")] = ()


class TelegramSection(ChannelSection):
    """Settings of the bots."""

    credentials: ClassVar = ("token",)
    person_id: ClassVar = "[0-9]{1,20}"
    chat_id: ClassVar = "-?[0-9]{1,20}"
    proves_identity: ClassVar = True

    enabled: Annotated[
        Flag,
        Setting(
            "whether `kore gateway` starts it; `KORE_TELEGRAM_TOKEN` in the environment turns it "
            "on unless it is set"
        ),
    ] = False
    token: Annotated[
        BotToken, Setting("the bot's token from @BotFather", stored_as="TELEGRAM_BOT_TOKEN")
    ] = SecretStr("")
    allow_from: Annotated[
        tuple[SenderId, ...],
        Setting(
            "numeric ids of the people who may use the bot. Empty: only the owner and paired "
            'people; `["*"]`: anyone',
            reload="at_once",
            widens_access=True,
        ),
    ] = ()
    base_url: Annotated[
        Url,
        AfterValidator(_server_url),
        Setting("address of the Bot API server, without `/bot`", widens_access=True),
    ] = OFFICIAL_SERVER
    proxy: Annotated[
        ProxyUrl | None,
        Setting(
            "a proxy that leads to it, or `none`; null: the environment's",
            see="proxies.md",
            widens_access=True,
        ),
    ] = None
    mode: Annotated[
        Literal["polling", "webhook"],
        Setting(
            "how updates arrive: by `polling`, or by `webhook` (Telegram calls Kore)",
            see="telegram.md#webhook",
        ),
    ] = "polling"
    webhook_url: Annotated[
        Url | None,
        Setting(
            "the public address of a proxy that forwards Telegram's calls to "
            "`http.host`:`http.port`",
            widens_access=True,
        ),
    ] = None
    webhook_secret: Annotated[
        SecretStr | None,
        Setting(
            "the secret that Telegram sends with every call: up to 256 of `A-Z a-z 0-9 _ -`; null:"
            " derived from the token"
        ),
    ] = None
    rate_limits: Annotated[
        Literal["telegram", "none"],
        Setting("rate limits to respect; `none` for a local Bot API server"),
    ] = "telegram"
    streaming: Annotated[
        Literal["edits", "drafts", "off"],
        Setting(
            "how an answer grows in private chats: `edits` of messages, `drafts` (no message until"
            " the answer is complete), or `off`. Groups don't support drafts"
        ),
    ] = "edits"
    long_answer_messages: Annotated[
        int,
        Strict(),
        Field(ge=0, le=1000),
        Setting(
            "a longer answer is sent as its beginning (one message fewer than this) and a file "
            "with all of it; 0: always messages"
        ),
    ] = 4
    rich_messages: Annotated[
        Flag,
        Setting(
            "whether answers with a table or a formula are sent as rich messages, where the server "
            "supports them. Apps from before June 2026 don't show such messages",
            see="telegram.md#rich-messages",
        ),
    ] = True
    accounts: Annotated[
        tuple[TelegramAccount, ...],
        Setting(
            'further bots: a list of `{"name", "token", "allow_from"}`, of which `allow_from` '
            "changes at once",
            widens_access=True,
        ),
    ] = ()
    reactions: Annotated[
        str,
        Field(min_length=1, max_length=16),
        Setting(
            "an emoji that Telegram allows as a reaction, such as 👀: shown on a message from when "
            "it is stored until it is answered"
        ),
    ] = "off"
    chats: Annotated[
        dict[Annotated[str, AfterValidator(_chat)], ChatSection],
        Setting(
            "settings for single chats and topics: a map from a chat (`-100123`) or a topic "
            '(`-100123/45`) to `{"persona", "model", "agent", "role", "listen", "folder"}`, all '
            "optional",
            see="telegram.md#places",
            widens_access=True,
        ),
    ] = Field(default_factory=dict)

    def secret_parts(self) -> Iterator[str]:
        """Yield the part after the bot's number of each token."""
        for token in (self.token, *(bot.token for bot in self.accounts)):
            yield token.get_secret_value().partition(":")[2]


def account_of(token: str) -> str:
    """Return a bot's stable name in routes."""
    bot_id = token.partition(":")[0]
    return bot_id if bot_id.isdigit() else "bot"


def check(section: TelegramSection) -> None:
    """Raise `ConfigError` for an enabled channel without a token, or with an invalid webhook."""
    if not section.token.get_secret_value():
        raise ConfigError(
            t("telegram.token is required when telegram.enabled is true"),
            hint=t("run `kore channel add telegram` or set KORE_TELEGRAM_TOKEN"),
        )
    if section.mode != "webhook":
        return
    url, secret = section.webhook_url, section.webhook_secret
    if url is None:
        raise ConfigError(
            t(
                'telegram.webhook_url is required when telegram.mode is "webhook": the '
                "URL at which Telegram reaches this Kore"
            ),
            hint=t('such as "https://kore.example.org", with a proxy that forwards to http.port'),
        )
    if not url.startswith("https://") and section.base_url == OFFICIAL_SERVER:
        raise ConfigError(t("telegram.webhook_url: found http://, but Telegram requires https://"))
    # The characters of setWebhook: https://core.telegram.org/bots/api#setwebhook
    if secret and not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", secret.get_secret_value()):
        raise ConfigError(
            t("telegram.webhook_secret: expected 1 to 256 of the characters A-Z a-z 0-9 _ -")
        )


# https://core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this
RATES = RateLimits(
    all_traffic=Rates(
        private=Rate(1.0, 5.0, reserve=1.0),
        # This burst allows at most the 20 messages per minute that a group permits.
        group=Rate(15 / 60, 5.0, reserve=1.0),
        # Below the permitted burst per second, because evenly sent messages arrive in batches.
        bot=Rate(30.0, 20.0, reserve=5.0),
    ),
    # On average, both processes respect a group's limit; after a burst the platform may ask one of
    # them to wait.
    previews=Rates(
        private=Rate(1.0, 4.0, reserve=1.0),
        group=Rate(4 / 60, 3.0, reserve=1.0),
        bot=Rate(1.5, 6.0, reserve=2.0),
    ),
)


def _invite(identity: ChannelIdentity, code: str) -> Invitation:
    """Return the invitation link: core.telegram.org/bots/features#deep-linking."""
    return Invitation(f"{identity.link}?start={code}", is_link=True)


SPEC = ChannelSpec(
    name="telegram",
    title="Telegram",
    section=TelegramSection,
    open=deferred("gateway.channels.telegram.opening:open_bots"),
    check=check,
    identify=deferred("gateway.channels.telegram.identity:identify"),
    steps=(
        SetupStep(
            "token",
            question=lambda: t("Token (hidden while you paste)"),
            instructions=lambda: (
                t("Create a bot with @BotFather: https://t.me/BotFather"),
                t("Send it /newbot, answer its two questions, and copy the token."),
            ),
            check=deferred("gateway.channels.telegram.identity:check_token"),
        ),
    ),
    invite=_invite,
    first_account=lambda section: account_of(section.token.get_secret_value()),
    rates=RATES,
)
