"""One frozen model for each section of config.json.

Values are strict: a number written as a string is an error, not a guess. Secrets are `SecretStr`.
What each key means to people is docs/configuration.md; `config.example.json` names them all.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr, Strict

from agent.security.policy.base import PermissionMode
from gateway.config.value_types import (
    AnyHostName,
    Audience,
    BotToken,
    BotUrl,
    BusUrl,
    ChatPlace,
    FileAddress,
    FileEnding,
    FilePath,
    Flag,
    Folder,
    HeaderName,
    HostName,
    Hours,
    Language,
    ListenText,
    Names,
    Number,
    Pattern,
    Principal,
    ProxyUrl,
    RoleName,
    SenderId,
    StoreUrl,
    Temperature,
    Url,
    VendorModel,
    Whole,
    Word,
    ZoneName,
)


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, protected_namespaces=()
    )


class AgentSection(Section):
    """`model` is a `model_name` of model_list or vendor/model, `fallback` one or several.

    Without `thinking` each model does as it does by itself. `language` is the program's own.
    `start_in` says where `kore agent` works without `--cwd`: in the project around the folder of
    the shell, or in the workspace. `default_agent` answers where no other agent was chosen.
    """

    model: Word = "default"
    workspace: Path = Path("~/.kore/workspace")
    max_iterations: Whole = 200
    temperature: Temperature | None = None
    max_tokens: Whole | None = None
    thinking: Flag | None = None
    fallback: Names | None = None
    language: Language = "auto"
    start_in: Literal["project", "workspace"] = "project"
    default_agent: Word | None = None


class ModelEntry(Section):
    """One named model; `transport` picks the client, `context_tokens` the size of its window.

    `tools` says how the model is told of them; without it Kore finds out. `api` is which of
    OpenAI's two APIs asks it; without it whichever the model needs. `headers` go with every
    request, beside those that Kore sends. `images` and `reasoning` say whether it sees and thinks,
    and win over what Kore knows. `api_keys` are asked one after the other, in place of
    `api_key`. `timeout_s` is the longest silence to wait for, `proxy` one that leads to the model.

    Prices are in dollars for a million tokens, and win over those that Kore knows.
    """

    model_name: Word
    model: VendorModel
    api_base: Url | None = None
    api_key: SecretStr | None = None
    api_keys: tuple[SecretStr, ...] = ()
    transport: Literal["aiohttp", "sdk"] = "aiohttp"
    context_tokens: Whole | None = None
    temperature: Temperature | None = None
    max_tokens: Whole | None = None
    price_input_usd: Number | None = None
    price_output_usd: Number | None = None
    price_cached_usd: Number | None = None
    tools: Literal["native", "xml"] | None = None
    api: Literal["chat", "responses"] | None = None
    images: Flag | None = None
    reasoning: Flag | None = None
    headers: dict[HeaderName, SecretStr] = Field(default_factory=dict)
    timeout_s: Annotated[Number, Field(ge=1, le=86_400)] | None = None
    proxy: ProxyUrl | None = None


class ProfilesSection(Section):
    default: Word = "default"
    task: Word = "default"
    reasoning: Word = "default"
    quick: Word = "default"


class TelegramAccount(Section):
    """A further bot beside the first one."""

    name: Word
    token: BotToken
    allow_from: tuple[SenderId, ...] = ()


class TelegramChat(Section):
    """What holds in one chat or topic; see `gateway.channels.chat_settings.ChatSettings`."""

    persona: Word | None = None
    model: Word | None = None
    agent: Word | None = None
    role: RoleName | None = None
    listen: Flag | None = None
    folder: Folder | None = None


class TelegramSection(Section):
    enabled: Flag = False
    token: BotToken = SecretStr("")
    allow_from: tuple[SenderId, ...] = ()
    base_url: BotUrl = "https://api.telegram.org"
    proxy: ProxyUrl | None = None
    mode: Literal["polling", "webhook"] = "polling"
    webhook_url: Url | None = None
    webhook_secret: SecretStr | None = None
    rate_limits: Literal["telegram", "none"] = "telegram"
    streaming: Literal["edits", "drafts", "off"] = "edits"
    queue: Literal["join", "queue", "steer"] = "join"
    # 0: any number.
    long_answer_messages: Annotated[int, Strict(), Field(ge=0, le=1000)] = 4
    trace: Literal["off", "summary", "full"] = "off"
    accounts: tuple[TelegramAccount, ...] = ()
    reactions: Annotated[str, Field(min_length=1, max_length=16)] = "off"
    chats: dict[ChatPlace, TelegramChat] = Field(default_factory=dict)


class MediaSection(Section):
    """Files that people send."""

    max_file_mb: Annotated[Whole, Field(ge=1, le=2000)] = 20
    keep_days: Whole | None = 90


class TranscriptionSection(Section):
    """A service that writes down what is spoken; without an address there is none."""

    api_base: Url | None = None
    api_key: SecretStr | None = None
    model: Word = "whisper-1"
    language: Word | None = None
    price_per_minute_usd: Number | None = None


class ImagesSection(Section):
    """A service that makes pictures; without an address there is none. `ask`: each one asks."""

    api_base: Url | None = None
    api_key: SecretStr | None = None
    model: Word = "gpt-image-1"
    size: Word | None = None
    ask: Flag = True
    price_usd: Number | None = None


class TtsSection(Section):
    """A service that reads aloud; without an address there is none. `replies` says which answers
    are spoken as well: those to voice messages, all of private chats, or none."""

    api_base: Url | None = None
    api_key: SecretStr | None = None
    model: Word = "tts-1"
    voice: Word = "alloy"
    replies: Literal["voice", "private", "never"] = "voice"


class MemorySection(Section):
    """`embeddings` is a `model_name` of model_list or vendor/model; without it words decide."""

    embeddings: Word | None = None


class ToolsSection(Section):
    exec_timeout_s: Annotated[Number, Field(gt=0)] = 60
    output_limit_bytes: Annotated[Whole, Field(ge=1000)] = 30_000
    read_limit_bytes: Annotated[Whole, Field(ge=1000)] = 50_000
    web_search_results: Annotated[Whole, Field(le=50)] = 5
    summarize: Flag = False
    asset_export: Flag = False


class ContextSection(Section):
    max_tokens: Annotated[Whole, Field(ge=1000)] | None = None
    max_tree_depth: Whole = 5
    max_files_per_dir: Whole = 50
    watch: Flag = True


ChannelName = Literal["cli", "telegram"]


def _first_modes() -> dict[ChannelName, PermissionMode]:
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
    sandbox_toolchains: Flag = True
    trusted_folders: tuple[Folder, ...] = ()
    sandbox_image: Word = "debian:stable-slim"
    exec_hosts: tuple[HostName, ...] = ()
    exec_processes: Annotated[Whole, Field(ge=8, le=30_000)] = 256
    exec_file_mb: Whole = 1000
    exec_memory_mb: Annotated[Whole, Field(ge=32)] = 4000
    exec_cpu_s: Annotated[Whole, Field(ge=1)] = 3600
    exec_session_memory_mb: Annotated[Whole, Field(ge=64)] = 8000
    exec_disk_mb: Annotated[Whole, Field(ge=1)] = 10_000
    exec_disk_free_mb: Whole = 500
    blocked_commands: tuple[Word, ...] = ("rm", "sudo", "shutdown", "format", "del")
    blocked_paths: tuple[Word, ...] = (".git", ".env", "node_modules/.cache")
    policy_file: Path | None = None
    modes: dict[ChannelName, PermissionMode] = Field(default_factory=_first_modes)
    approval_timeout_s: Annotated[Number, Field(gt=0)] | None = None


class StoreSection(Section):
    url: StoreUrl = "sqlite:///~/.kore/kore.db"
    encryption_key_env: Word | None = None
    files: FileAddress | None = None
    lease_s: Annotated[Number, Field(ge=1)] = 15

    @property
    def path(self) -> Path | None:
        """The file of an SQLite database; None for a server."""
        scheme, _, path = self.url.partition(":///")
        return Path(path) if scheme == "sqlite" else None

    @property
    def place(self) -> str:
        """For people: the file, or the server and its database, without a password."""
        if self.path is not None:
            return str(self.path)
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"

    @property
    def local_paths(self) -> tuple[Path, ...]:
        """The database, what SQLite keeps beside it, its copies, and files on their way out; the
        folder of files that other machines see, too."""
        shared = [Path(self.files)] if self.files and self.files.startswith("/") else []
        if self.path is None:
            return tuple(shared)
        names = (self.path.name + end for end in ("", "-wal", "-shm"))
        own = (self.path.with_name(name) for name in (*names, "backups", "outgoing"))
        return (*own, *shared)


class BusSection(Section):
    url: BusUrl | None = None


class LimitsSection(Section):
    cost_per_turn_usd: Number | None = None
    cost_per_session_usd: Number | None = None
    cost_per_chat_day_usd: Number | None = None
    cost_per_day_usd: Number | None = None
    tokens_per_turn: Whole | None = None


class SubagentsSection(Section):
    max_depth: Annotated[int, Strict(), Field(ge=0, le=3)] = 1
    max_parallel: Annotated[Whole, Field(le=16)] = 4
    max_cost_usd: Number | None = None


class HttpSection(Section):
    """Port 0 takes any free one."""

    host: Word = "127.0.0.1"
    port: Annotated[int, Strict(), Field(ge=0, le=65535)] = 8787


class ServerSection(Section):
    """Without `listen` a gateway opens no server. `hosts` are further names that it is reached by;
    `insecure`: other machines may reach it without TLS. `terminal`: shells in the browser. No more
    than `max_connections` are open at a time."""

    listen: ListenText | None = None
    tls_cert: FilePath | None = None
    tls_key: FilePath | None = None
    client_ca: FilePath | None = None
    hosts: tuple[Word, ...] = ()
    insecure: Flag = False
    terminal: Literal["off", "sandbox", "full"] = "off"
    max_connections: Annotated[Whole, Field(ge=8, le=100_000)] = 500


class AccessSection(Section):
    """`owner` is a principal, `channel:id`; `roles` maps people, chats and channels to roles."""

    owner: Principal | None = None
    roles: dict[Audience, RoleName] = Field(default_factory=dict)


class ScheduleSection(Section):
    """`zone` is an IANA name; without one USER.md or the machine tells. Without
    `heartbeat_minutes` there is no heartbeat."""

    zone: ZoneName | None = None
    quiet_hours: Hours | None = None
    max_jobs: Whole = 50
    min_interval_s: Annotated[Whole, Field(ge=1)] = 60
    max_failures: Annotated[Whole, Field(ge=1)] = 3
    heartbeat_minutes: Annotated[Whole, Field(ge=1)] | None = None


class LoggingSection(Section):
    level: Literal["debug", "info", "warning", "error"] = "info"
    file: Path | None = None
    file_mb: Annotated[Whole, Field(le=1000)] = 10
    files_kept: Annotated[Whole, Field(le=100)] = 5


class McpServer(Section):
    """A server to start (`command`) or to reach (`url`): see docs/mcp.md."""

    command: Word | None = None
    args: tuple[str, ...] = ()
    env: dict[str, SecretStr] = Field(default_factory=dict)
    url: Url | None = None
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    type: Literal["stdio", "http", "sse"] | None = None
    enabled: Flag = True
    folder: Folder | None = None
    read_only: Flag = False
    network: tuple[AnyHostName, ...] = ("*",)
    tools: tuple[Word, ...] = ("*",)
    without_tools: tuple[Word, ...] = ()
    allow: tuple[Word, ...] = ()
    private: Flag | None = None
    timeout_s: Annotated[Number, Field(gt=0)] = 120
    start_timeout_s: Annotated[Number, Field(gt=0)] = 30
    protocol: Literal["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] | None = None


class LspSection(Section):
    """Language servers, and what happens to an edit that brings new errors."""

    enabled: Flag = True
    before_write: Literal["off", "report", "block"] = "report"
    idle_s: Annotated[Number, Field(gt=0)] = 900
    wait_s: Annotated[Number, Field(gt=0, le=120)] = 10
    timeout_s: Annotated[Number, Field(gt=0, le=600)] = 30


class LspServer(Section):
    """A language server, or another way to start one that Kore knows: see
    docs/language-servers.md."""

    command: Word | None = None
    args: tuple[str, ...] = ()
    extensions: tuple[FileEnding, ...] = ()
    languages: dict[FileEnding, Word] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    env: dict[str, SecretStr] = Field(default_factory=dict)
    root_files: tuple[Word, ...] = ()
    enabled: Flag = True


class HookCommand(Section):
    """A shell command that gets the event as JSON on its standard input."""

    type: Literal["command"] = "command"
    command: Word
    timeout: Annotated[Number, Field(gt=0, le=600)] = 60


HookEventName = Literal[
    "PreToolUse", "PostToolUse", "SessionStart", "UserPromptSubmit", "Stop", "Notification"
]
HOOK_EVENTS: tuple[HookEventName, ...] = get_args(HookEventName)


class HookMatcher(Section):
    """The commands for the tools that `matcher` names: see docs/hooks.md."""

    matcher: Pattern = ""
    hooks: tuple[HookCommand, ...]
