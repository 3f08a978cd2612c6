"""The typed settings: one frozen model per section of config.json.

Values are strict: a number written as a string is an error, not a guess. Secrets are `SecretStr`.
What each key means to people is docs/configuration.md; `config.example.json` names them all.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    Strict,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from agent.security.modes import Mode
from gateway.settings.people import Audience, Principal, RoleName, SenderId
from gateway.settings.place import Missing
from gateway.settings.reach import Folder, HostName


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_one = False
    if not is_one:
        raise ValueError("an address that starts with http:// or https://")
    return text.rstrip("/")


def _bot_url(text: str) -> str:
    """The root of a Bot API server; the `/bot` that libraries want after it is taken off."""
    return _url(text).removesuffix("/bot")


def _store_url(text: str) -> str:
    if not text.startswith("sqlite:///") or len(text) == len("sqlite:///"):
        raise ValueError("sqlite:///PATH, the only kind of store there is yet")
    return text


def _vendor_model(text: str) -> str:
    vendor, slash, name = text.partition("/")
    if not (vendor and slash and name):
        raise ValueError('vendor/model, such as "openai/gpt-5"')
    return text


Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict(), Field(ge=1, le=10**12)]
Number = Annotated[float, Strict(), Field(ge=0, le=10**9, allow_inf_nan=False)]
Temperature = Annotated[float, Strict(), Field(ge=0, le=2, allow_inf_nan=False)]
Word = Annotated[str, Field(min_length=1, max_length=4096)]
Url = Annotated[str, AfterValidator(_url)]
BotUrl = Annotated[str, AfterValidator(_bot_url)]
StoreUrl = Annotated[str, AfterValidator(_store_url)]
VendorModel = Annotated[str, AfterValidator(_vendor_model)]


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, protected_namespaces=()
    )


class AgentSection(Section):
    """`model` and `fallback` are a `model_name` of model_list or vendor/model."""

    model: Word = "default"
    workspace: Path = Path("~/.kore/workspace")
    max_iterations: Whole = 50
    temperature: Temperature | None = None
    max_tokens: Whole | None = None
    thinking: Flag = False
    fallback: Word | None = None


class ModelEntry(Section):
    """One named model; `transport` picks the client, `context_tokens` the size of its window.

    Prices are in dollars for a million tokens, and win over those that Kore knows.
    """

    model_name: Word
    model: VendorModel
    api_base: Url | None = None
    api_key: SecretStr | None = None
    transport: Literal["aiohttp", "sdk"] = "aiohttp"
    context_tokens: Whole | None = None
    temperature: Temperature | None = None
    max_tokens: Whole | None = None
    price_input_usd: Number | None = None
    price_output_usd: Number | None = None
    price_cached_usd: Number | None = None


class ProfilesSection(Section):
    default: Word = "default"
    task: Word = "default"
    reasoning: Word = "default"
    quick: Word = "default"


class TelegramAccount(Section):
    """A further bot beside the first one."""

    name: Word
    token: SecretStr
    allow_from: tuple[SenderId, ...] = ()


class TelegramSection(Section):
    enabled: Flag = False
    token: SecretStr = SecretStr("")
    allow_from: tuple[SenderId, ...] = ()
    base_url: BotUrl = "https://api.telegram.org"
    mode: Literal["polling", "webhook"] = "polling"
    webhook_url: Url | None = None
    webhook_secret: SecretStr | None = None
    rate_limits: Literal["telegram", "none"] = "telegram"
    accounts: tuple[TelegramAccount, ...] = ()


class ToolsSection(Section):
    exec_timeout_s: Annotated[Number, Field(gt=0)] = 60
    output_limit_bytes: Annotated[Whole, Field(ge=1000)] = 10_000
    web_search_results: Annotated[Whole, Field(le=50)] = 5


class ContextSection(Section):
    max_tokens: Annotated[Whole, Field(ge=1000)] = 128_000
    max_tree_depth: Whole = 5
    max_files_per_dir: Whole = 50


ChannelName = Literal["cli", "telegram"]


def _first_modes() -> dict[ChannelName, Mode]:
    return {"cli": "ask"}


class AgentFlags(Section):
    """What a role loses: it changes no files, runs no commands, or asks before each command."""

    allow_write: Flag = True
    allow_command: Flag = True
    confirm_before_command: Flag = False


class SecuritySection(Section):
    restrict_to_workspace: Flag = True
    sandbox: Literal["auto", "bwrap", "landlock", "container", "none"] = "auto"
    sandbox_read: tuple[Folder, ...] = ()
    sandbox_image: Word = "debian:stable-slim"
    exec_hosts: tuple[HostName, ...] = ()
    exec_processes: Annotated[Whole, Field(ge=8, le=30_000)] = 256
    exec_file_mb: Whole = 1000
    exec_memory_mb: Annotated[Whole, Field(ge=32)] = 4000
    blocked_commands: tuple[Word, ...] = ("rm", "sudo", "shutdown", "format", "del")
    blocked_paths: tuple[Word, ...] = (".git", ".env", "node_modules/.cache")
    policy_file: Path | None = None
    modes: dict[ChannelName, Mode] = Field(default_factory=_first_modes)
    approval_timeout_s: Annotated[Number, Field(gt=0)] = 3600


class StoreSection(Section):
    url: StoreUrl = "sqlite:///~/.kore/kore.db"
    encryption_key_env: Word | None = None

    @property
    def path(self) -> Path:
        return Path(self.url.removeprefix("sqlite:///"))

    @property
    def files(self) -> tuple[Path, ...]:
        """The database and what SQLite keeps beside it."""
        return tuple(self.path.with_name(self.path.name + end) for end in ("", "-wal", "-shm"))


class LimitsSection(Section):
    cost_per_turn_usd: Number | None = None
    cost_per_session_usd: Number | None = None
    cost_per_chat_day_usd: Number | None = None
    cost_per_day_usd: Number | None = None
    tokens_per_turn: Whole | None = None


class HttpSection(Section):
    """Port 0 takes any free one."""

    host: Word = "127.0.0.1"
    port: Annotated[int, Strict(), Field(ge=0, le=65535)] = 8787


class AccessSection(Section):
    """`owner` is a principal, `channel:id`; `roles` maps people, chats and channels to roles."""

    owner: Principal | None = None
    roles: dict[Audience, RoleName] = Field(default_factory=dict)


class LoggingSection(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    file: Path | None = None


class McpServer(Section):
    """A server to start (`command`) or to reach (`url`)."""

    command: Word | None = None
    args: tuple[str, ...] = ()
    env: dict[str, SecretStr] = Field(default_factory=dict)
    url: Url | None = None
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    type: Literal["stdio", "http", "sse"] | None = None
    enabled: Flag = True


class Settings(BaseSettings):
    """All settings, as their layers give them (the highest first); without any, the defaults.

    `missing` lists references to variables that are not set, in places where that matters only
    once they are used; `files` the files that were read.
    """

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, env_prefix="KORE_"
    )

    agent: AgentSection = AgentSection()
    model_list: tuple[ModelEntry, ...] = ()
    profiles: ProfilesSection = ProfilesSection()
    telegram: TelegramSection = TelegramSection()
    tools: ToolsSection = ToolsSection()
    context: ContextSection = ContextSection()
    security: SecuritySection = SecuritySection()
    store: StoreSection = StoreSection()
    limits: LimitsSection = LimitsSection()
    http: HttpSection = HttpSection()
    access: AccessSection = AccessSection()
    agents: dict[RoleName, AgentFlags] = Field(default_factory=dict)
    logging: LoggingSection = LoggingSection()
    mcp_servers: dict[str, McpServer] = Field(default_factory=dict)

    _missing: tuple[Missing, ...] = PrivateAttr(default=())
    _files: tuple[Path, ...] = PrivateAttr(default=())
    _hidden: tuple[str, ...] = PrivateAttr(default=())

    def __init__(
        self,
        *layers: PydanticBaseSettingsSource,
        missing: Sequence[Missing] = (),
        files: Sequence[Path] = (),
    ) -> None:
        super().__init__(layers=layers)
        # Only now: what is missing is known once the layers were asked.
        self._missing, self._files = tuple(missing), tuple(files)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Our layers alone: the library's own sources know neither places nor lesser rights."""
        return tuple(init_settings()["layers"])

    @property
    def missing(self) -> tuple[Missing, ...]:
        return self._missing

    @property
    def files(self) -> tuple[Path, ...]:
        return self._files

    @property
    def hidden(self) -> tuple[str, ...]:
        """Secret texts that no field of type `SecretStr` holds: secrets.json, and the like."""
        return self._hidden

    def hide(self, texts: Sequence[str]) -> None:
        """What nobody may be shown either; for whoever reads the settings."""
        self._hidden = tuple(texts)
