"""Base of the settings that each channel has, and the sections of the built-in channels."""

from collections.abc import Iterator, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from gateway.config.sections import Section
from gateway.config.setting import Setting
from gateway.config.value_types import Flag, Folder, RoleName, Word
from gateway.core.channel_table import CHANNELS


def _sender_text(value: Any) -> Any:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value


Sender = Annotated[Word, BeforeValidator(_sender_text)]


class ChannelAccount(Section):
    """Additional account of a channel, besides the account of the section itself."""

    name: Word
    allow_from: Annotated[tuple[Sender, ...], Setting(reload="at_once")] = ()


class ChatSection(Section):
    """Settings of a chat or topic; see `gateway.channels.chat_settings.ChatSettings`."""

    persona: Word | None = None
    model: Word | None = None
    agent: Word | None = None
    role: RoleName | None = None
    listen: Flag | None = None
    folder: Folder | None = None


class ChannelSection(Section):
    """Settings that every channel has. A channel's own section inherits from this class, adds its
    keys, and narrows the ids of people and chats to the platform's.

    `credentials` are the keys of the secrets that a channel needs. `person_id` and `chat_id` are
    patterns of the platform's ids. Where the platform `proves_identity` of senders, the only person
    on the allow-list is the owner.
    """

    credentials: ClassVar[tuple[str, ...]] = ()
    person_id: ClassVar[str] = r"[^\s:]+"
    chat_id: ClassVar[str] = r"[^\s:]+"
    proves_identity: ClassVar[bool] = False

    enabled: Annotated[Flag, Setting("whether `kore gateway` starts it")] = False
    allow_from: Annotated[
        tuple[Sender, ...],
        Setting(
            "ids of the people who may write. Empty: only the owner and paired people; "
            '`["*"]`: anyone',
            reload="at_once",
            widens_access=True,
        ),
    ] = ()
    queue: Annotated[
        Literal["join", "queue", "steer"],
        Setting(
            "how to handle messages that arrive during a turn: `join`, `queue` or `steer`; "
            "`/queue` overrides it for a chat",
            see="steering.md",
        ),
    ] = "join"
    trace: Annotated[
        Literal["off", "summary", "full"],
        Setting(
            "details of the work shown below answers: `off`, `summary` or `full`; `/verbose` "
            "overrides it for a chat"
        ),
    ] = "off"
    accounts: Annotated[
        tuple[ChannelAccount, ...], Setting("further accounts", widens_access=True)
    ] = ()
    chats: Annotated[
        dict[Word, ChatSection],
        Setting("settings for single chats and topics", widens_access=True),
    ] = Field(default_factory=dict)

    @property
    def has_credentials(self) -> bool:
        """Return whether all credentials are set."""
        return all(getattr(self, key).get_secret_value() for key in self.credentials)

    def secret_parts(self) -> Iterator[str]:
        """Yield parts of the secrets that are also secrets on their own."""
        yield from ()

    def allowed_senders(self, account: str) -> tuple[str, ...]:
        """Return the ids of the people who may write to an account; "*" is everyone."""
        by_account = {further.name: further.allow_from for further in self.accounts}
        return by_account.get(account, self.allow_from)


@cache
def built_in_sections() -> Mapping[str, type[ChannelSection]]:
    """Return the section classes of the built-in channels by name."""
    return {name: resolve_name(path).section for name, path in CHANNELS.items()}


def environment_variable(channel: str, key: str) -> str:
    """Return Kore's own name for a key of a channel in the environment."""
    return f"KORE_{channel}_{key}".upper()
