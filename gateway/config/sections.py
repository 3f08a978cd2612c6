"""One frozen model for each section of config.json.

Values are strict: a number written as a string is an error, not a guess. Secrets are `SecretStr`.
Each key is annotated with a `Setting`, from which `make schema` writes docs/settings.md and
config.example.json.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, SecretStr, Strict

from agent.records import frozen
from agent.security.policy.base import PermissionMode
from agent.types import ReasoningEffort
from gateway.config.setting import Setting
from gateway.config.value_types import (
    AnyHostName,
    Audience,
    BusUrl,
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
    LocalServiceText,
    Names,
    Number,
    Pattern,
    Principal,
    ProxyUrl,
    RoleName,
    StoreUrl,
    Temperature,
    Url,
    Variables,
    VendorModel,
    Whole,
    Word,
    ZoneName,
)
from gateway.core.channel_table import DEFAULT_CHANNEL
from gateway.core.log_levels import LogLevel


class Section(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, hide_input_in_errors=True, protected_namespaces=()
    )


class AgentSection(Section):
    model: Annotated[
        Word,
        Setting(
            "a `model_name` of `model_list`, or `vendor/model`. If there is no entry `default`: "
            "the vendor whose key is in the environment, then Ollama, then offline",
            reload="at_once",
        ),
    ] = "default"
    workspace: Annotated[
        Path,
        Setting(
            "the folder with the prompt files, where tools work", widens_access=True, is_path=True
        ),
    ] = Path("~/.kore/workspace")
    worktrees: Annotated[
        Path | None,
        Setting(
            "the folder for git worktrees; null: beside the repository, in `NAME.worktrees`",
            see="worktrees.md",
            widens_access=True,
            is_path=True,
        ),
    ] = None
    max_iterations: Annotated[
        Whole, Setting("model calls in one turn", reload="at_once", is_harmless=True)
    ] = 200
    temperature: Annotated[
        Temperature | None,
        Setting("0 to 2; null: the vendor's default", reload="at_once", is_harmless=True),
    ] = None
    max_tokens: Annotated[
        Whole | None, Setting("maximum length of one reply", reload="at_once", is_harmless=True)
    ] = None
    effort: Annotated[
        ReasoningEffort | None,
        Setting(
            "how hard models think before they answer: `none`, `minimal`, `low`, `medium`, `high`, "
            "`xhigh` or `max`; null: the model's default",
            see="models.md#effort",
            reload="at_once",
            is_harmless=True,
        ),
    ] = None
    fallback: Annotated[
        Names | None,
        Setting(
            "the model to use when another one fails, or a list in order",
            see="models.md#when-a-model-fails",
            reload="at_once",
        ),
    ] = None
    language: Annotated[
        Language,
        Setting(
            "language of Kore's own messages: `en`, `zh-Hans` or `zh-Hant` (`zh`, `zh-TW` and the "
            "like too); `auto`: the language of each person's app or terminal",
            see="languages.md",
            reload="at_once",
        ),
    ] = "auto"
    start_in: Annotated[
        Literal["project", "workspace"],
        Setting(
            "where `kore agent` works without `--cwd`: in the `project` you are in, or in the "
            "`workspace`",
            see="context.md#the-working-folder",
            widens_access=True,
        ),
    ] = "project"
    default_agent: Annotated[
        Word | None,
        Setting(
            "the agent that answers where neither a conversation (`/agent`) nor its chat has "
            "another",
            see="agents.md#talking-to-an-agent",
            widens_access=True,
        ),
    ] = None


class ModelEntry(Section):
    """A named model."""

    model_name: Annotated[
        Word, Setting("the name for other keys, `--model` and `/model`", example="my-model")
    ]
    model: Annotated[VendorModel, Setting("`vendor/model`", example="openai/gpt-4")]
    api_base: Annotated[
        Url | None,
        Setting(
            "another address; Kore adds `/v1` if the vendor uses one, and removes it for `ollama`",
            widens_access=True,
            example="https://my-proxy.com/v1",
        ),
    ] = None
    api_key: Annotated[
        SecretStr | None, Setting("the key; null: the vendor's variable in the environment")
    ] = None
    api_keys: Annotated[
        tuple[SecretStr, ...],
        Setting(
            "several keys in place of `api_key`, used in this order",
            see="models.md#when-a-model-fails",
            example=("sk-...", "sk-..."),
        ),
    ] = ()
    transport: Annotated[
        Literal["aiohttp", "sdk"], Setting("`aiohttp` or `sdk`", see="models.md#api-formats")
    ] = "aiohttp"
    context_tokens: Annotated[
        Whole | None,
        Setting(
            "size of its context window, if Kore does not know it or a smaller one is enough; "
            "`ollama` opens one of this size (default 32768)",
            example=128_000,
        ),
    ] = None
    temperature: Annotated[
        Temperature | None, Setting("overrides `agent.temperature`", example=0.7)
    ] = None
    max_tokens: Annotated[Whole | None, Setting("overrides `agent.max_tokens`", example=4096)] = (
        None
    )
    price_input_usd: Annotated[
        Number | None,
        Setting(
            "dollars per million input tokens; overrides the price that Kore knows",
            see="spending.md",
            widens_access=True,
            example=30,
        ),
    ] = None
    price_output_usd: Annotated[
        Number | None, Setting("dollars per million output tokens", widens_access=True, example=60)
    ] = None
    price_cached_usd: Annotated[
        Number | None,
        Setting("dollars per million input tokens that the vendor had cached", widens_access=True),
    ] = None
    tools: Annotated[
        Literal["native", "xml"] | None,
        Setting(
            "`native` or `xml`; null: Kore finds out", see="models.md#models-without-tool-support"
        ),
    ] = None
    api: Annotated[
        Literal["chat", "responses"] | None,
        Setting(
            "`chat` or `responses`: which of OpenAI's two APIs to use; null: whichever the model "
            "needs",
            see="models.md#api-formats",
        ),
    ] = None
    images: Annotated[
        Flag | None,
        Setting(
            "whether the model sees pictures; null: what Kore knows",
            see="models.md#what-kore-knows-of-models",
        ),
    ] = None
    reasoning: Annotated[
        Flag | None,
        Setting(
            "whether the model thinks; null: what Kore knows",
            see="models.md#what-kore-knows-of-models",
        ),
    ] = None
    headers: Annotated[
        dict[HeaderName, SecretStr],
        Setting(
            'sent with every request, such as `{"anthropic-version": "2023-06-01"}`; `${NAME}` '
            "works",
            widens_access=True,
        ),
    ] = Field(default_factory=dict)
    timeout_s: Annotated[
        Annotated[Number, Field(ge=1, le=86_400)] | None,
        Setting(
            "the longest silence to wait for, in seconds; null: 120 to the first byte, 60 after "
            "it, 1800 for servers nearby",
            see="models.md#slow-servers",
        ),
    ] = None
    proxy: Annotated[
        ProxyUrl | None,
        Setting(
            "a proxy that leads to the address, or `none`", see="proxies.md", widens_access=True
        ),
    ] = None


class ProfilesSection(Section):
    default: Annotated[
        Word,
        Setting(
            "the model that answers people, if `agent.model` names none", see="models.md#profiles"
        ),
    ] = "default"
    task: Annotated[Word, Setting("the model that runs sub-agents", see="models.md#profiles")] = (
        "default"
    )
    reasoning: Annotated[Word, Setting("the model for hard problems", see="models.md#profiles")] = (
        "default"
    )
    quick: Annotated[
        Word,
        Setting("the model for small background work", see="models.md#profiles", example="local"),
    ] = "default"


class MediaSection(Section):
    """Files that people send."""

    max_file_mb: Annotated[
        Whole,
        Field(ge=1, le=2000),
        Setting(
            "the largest file to accept, up to 2000; a platform may allow less",
            see="media.md",
        ),
    ] = 20
    keep_days: Annotated[
        Whole | None,
        Setting(
            "files in the inbox are deleted after this many days, unless they were sent again or "
            "changed; null: never"
        ),
    ] = 90


class TranscriptionSection(Section):
    """A service that transcribes speech."""

    api_base: Annotated[
        Url | None,
        Setting(
            "an OpenAI-compatible service that transcribes voice messages, such as "
            "`https://api.openai.com/v1`; null: none",
            see="media.md#voice",
            widens_access=True,
        ),
    ] = None
    api_key: Annotated[SecretStr | None, Setting("its key")] = None
    model: Annotated[Word, Setting("its model")] = "whisper-1"
    language: Annotated[
        Word | None, Setting("the spoken language (`en`, `zh` …); null: the service detects it")
    ] = None
    price_per_minute_usd: Annotated[
        Number | None,
        Setting(
            "price per minute; null: OpenAI's price for OpenAI's own models, otherwise unknown",
            see="spending.md",
            widens_access=True,
        ),
    ] = None


class ImagesSection(Section):
    """A service that makes pictures."""

    api_base: Annotated[
        Url | None,
        Setting(
            "an OpenAI-compatible service that makes pictures; null: none",
            see="creative-tools.md#pictures",
            widens_access=True,
        ),
    ] = None
    api_key: Annotated[SecretStr | None, Setting("its key")] = None
    model: Annotated[Word, Setting("its model")] = "gpt-image-1"
    size: Annotated[
        Word | None, Setting("a size such as `1024x1024`; null: the service decides")
    ] = None
    ask: Annotated[Flag, Setting("ask before each picture", widens_access=True)] = True
    price_usd: Annotated[
        Number | None, Setting("what one picture costs", see="spending.md", widens_access=True)
    ] = None


class TtsSection(Section):
    """A service that reads answers aloud."""

    api_base: Annotated[
        Url | None,
        Setting(
            "an OpenAI-compatible service that reads answers aloud; null: none",
            see="creative-tools.md#voices",
            widens_access=True,
        ),
    ] = None
    api_key: Annotated[SecretStr | None, Setting("its key")] = None
    model: Annotated[Word, Setting("its model")] = "tts-1"
    voice: Annotated[Word, Setting("its voice")] = "alloy"
    replies: Annotated[
        Literal["voice", "private", "never"],
        Setting(
            "which answers are spoken as well: those to `voice` messages, all of `private` chats, "
            "or `never`"
        ),
    ] = "voice"


class MemorySection(Section):
    embeddings: Annotated[
        Word | None,
        Setting(
            "a model of embeddings: a `model_name` of `model_list` or `vendor/model`, such as "
            "`openai/text-embedding-3-small` or `ollama/bge-m3`. `memory_search` then also finds "
            "what has the same meaning in other words",
            see="memory.md#by-meaning",
        ),
    ] = None


class ToolsSection(Section):
    exec_timeout_s: Annotated[Number, Field(gt=0), Setting("default timeout of a command")] = 60
    output_limit_bytes: Annotated[
        Whole,
        Field(ge=1000),
        Setting("how much of one result the model gets to read; at least 1000"),
    ] = 30_000
    read_limit_bytes: Annotated[
        Whole, Field(ge=1000), Setting("the same for one call of `read_file`")
    ] = 50_000
    web_search_results: Annotated[Whole, Field(le=50), Setting("at most 50")] = 5
    summarize: Annotated[
        Flag, Setting("a tool that summarizes a long file", see="creative-tools.md")
    ] = False
    asset_export: Annotated[
        Flag, Setting("a tool that packs files", see="creative-tools.md", widens_access=True)
    ] = False


class ContextSection(Section):
    max_tokens: Annotated[
        Annotated[Whole, Field(ge=1000)] | None,
        Setting("upper limit for every model's context window"),
    ] = None
    max_tree_depth: Annotated[
        Whole, Setting("depth of the tree that is shown of a project", see="context.md")
    ] = 5
    max_files_per_dir: Annotated[Whole, Setting("entries per folder of that tree")] = 50
    watch: Annotated[
        Flag,
        Setting(
            "watch a project's files, so that screens hear of changes at once",
            see="context.md#watching-a-project",
        ),
    ] = True


def _first_modes() -> dict[str, PermissionMode]:
    return {"cli": "ask"}


class AgentFlags(Section):
    """Restrictions of a role."""

    allow_write: Flag = True
    allow_command: Flag = True
    confirm_before_command: Flag = False


class SecuritySection(Section):
    restrict_to_workspace: Annotated[
        Flag, Setting("file tools stay inside the workspace", reload="at_once")
    ] = True
    sandbox: Annotated[
        Literal["auto", "bwrap", "landlock", "container", "none"],
        Setting(
            "`bwrap`, `landlock`, `container` or `none`; `auto`: the first that works on this "
            "machine",
            see="sandbox.md",
        ),
    ] = "auto"
    sandbox_read: Annotated[
        tuple[Folder, ...],
        Setting(
            "additional folders that commands may read and run programs from; don't add folders "
            "with secrets"
        ),
    ] = ()
    sandbox_toolchains: Annotated[
        Flag,
        Setting(
            "commands may run programs of version managers in your home folder (pyenv, nvm, cargo,"
            " uv, go and others)"
        ),
    ] = True
    trusted_folders: Annotated[
        tuple[Folder, ...],
        Setting(
            "folders such as `~/code` whose files you trust: the files, their AGENTS.md "
            "([context.md](context.md)) and agents ([agents.md](agents.md)) count as your own "
            "words. `kore trust FOLDER` adds one",
            see="taint.md#which-folders-are-trusted",
            reload="at_once",
        ),
    ] = ()
    sandbox_image: Annotated[
        Word, Setting("the image for the backend `container`; Kore never pulls it")
    ] = "debian:stable-slim"
    exec_hosts: Annotated[
        tuple[HostName, ...],
        Setting(
            "hosts that sandboxed commands may reach, such as `example.org` or `*.example.org`; "
            "http and https only",
            see="sandbox.md#hosts-that-commands-may-reach",
        ),
    ] = ()
    exec_local: Annotated[
        tuple[LocalServiceText, ...],
        Field(max_length=32),
        Setting(
            "services of this machine that sandboxed commands may reach, such as `127.0.0.1:5432` "
            "or `unix:/run/docker.sock`",
            see="local-services.md",
        ),
    ] = ()
    exec_env: Annotated[
        Variables,
        Setting(
            'variables for commands, such as `{"JAVA_HOME": "${JAVA_HOME}"}`; no secrets, which '
            "are refused",
            see="sandbox.md#what-a-command-can-do",
            widens_access=True,
        ),
    ] = Field(default_factory=dict)
    exec_processes: Annotated[
        Whole,
        Field(ge=8, le=30_000),
        Setting("processes that one command may run at a time; at least 8"),
    ] = 256
    exec_file_mb: Annotated[Whole, Setting("megabytes per file of a command")] = 1000
    exec_memory_mb: Annotated[
        Whole, Field(ge=32), Setting("megabytes of memory of each process of a command")
    ] = 4000
    exec_cpu_s: Annotated[
        Whole, Field(ge=1), Setting("CPU seconds for each process of a command")
    ] = 3600
    exec_session_memory_mb: Annotated[
        Whole,
        Field(ge=64),
        Setting(
            "megabytes of memory for all commands of a conversation together, never more than "
            "three quarters of the machine's; at least 64"
        ),
    ] = 8000
    exec_disk_mb: Annotated[
        Whole, Field(ge=1), Setting("megabytes that one command may write to its workspace")
    ] = 10_000
    exec_disk_free_mb: Annotated[Whole, Setting("megabytes that must stay free on the disk")] = 500
    blocked_commands: Annotated[
        tuple[Word, ...],
        Setting(
            "denied in every mode (with the default list, `rm` and `del` only without a sandbox); "
            "a safeguard against mistakes, not a security boundary",
            reload="at_once",
        ),
    ] = ("rm", "sudo", "shutdown", "format", "del")
    blocked_paths: Annotated[
        tuple[Word, ...], Setting("path components that no tool touches", reload="at_once")
    ] = (".git", ".env", "node_modules/.cache")
    policy_file: Annotated[
        Path | None,
        Setting(
            "a `policy.yaml` with your own roles; reloaded when it changes",
            see="policy.md",
            reload="at_once",
            is_path=True,
        ),
    ] = None
    modes: Annotated[
        dict[Word, PermissionMode],
        Setting(
            "the permission mode of new conversations, by channel (`cli` is the terminal): `plan`, "
            "`ask`, `accept-edits`, `auto`. Channels that aren't listed start with `ask`",
            reload="at_once",
        ),
    ] = Field(default_factory=_first_modes)
    approval_timeout_s: Annotated[
        Annotated[Number, Field(gt=0)] | None,
        Setting(
            "seconds that a question waits before it counts as denied, in the terminal and in "
            "chats; null: until it is answered",
            see="approvals.md",
            reload="at_once",
        ),
    ] = None


class StoreSection(Section):
    url: Annotated[
        StoreUrl,
        Setting(
            "the database: `sqlite:///PATH`, or `postgresql://USER@HOST/DATABASE`",
            see="postgresql.md",
            widens_access=True,
            is_path=True,
        ),
    ] = "sqlite:///~/.kore/kore.db"
    encryption_key_env: Annotated[
        Word | None,
        Setting(
            "name of the environment variable with the key that encrypts stored messages: 32 bytes"
            " in base64 or hexadecimal",
            see="secrets.md",
            widens_access=True,
        ),
    ] = None
    files: Annotated[
        FileAddress | None,
        Setting(
            "where files lie that other machines need: a folder by its full path, or "
            "`s3://BUCKET/PREFIX?endpoint=URL&region=NAME`",
            see="shared-files.md",
            widens_access=True,
        ),
    ] = None
    lease_s: Annotated[
        Number,
        Field(ge=1),
        Setting(
            "on PostgreSQL, how many seconds the owner of the database may say nothing before a "
            "gateway that stands by replaces it",
            see="postgresql.md",
        ),
    ] = 15

    @property
    def path(self) -> Path | None:
        """Return the file of an SQLite database; None for a server."""
        scheme, _, path = self.url.partition(":///")
        return Path(path) if scheme == "sqlite" else None

    @property
    def place(self) -> str:
        """Return the file, or the server and its database without a password, for people."""
        if self.path is not None:
            return str(self.path)
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"

    @property
    def local_paths(self) -> tuple[Path, ...]:
        """Return the files and folders of an SQLite store, its backups and its outgoing files, and
        the folder of shared files."""
        shared = [Path(self.files)] if self.files and self.files.startswith("/") else []
        if self.path is None:
            return tuple(shared)
        names = (self.path.name + end for end in ("", "-wal", "-shm"))
        own = (self.path.with_name(name) for name in (*names, "backups", "outgoing"))
        return (*own, *shared)


class BusSection(Section):
    url: Annotated[
        BusUrl | None,
        Setting(
            "`nats://HOST:PORT` or `tls://HOST:PORT`: a NATS server over which the processes of "
            "one Kore hint to each other, in place of the database server",
            see="workers.md",
            widens_access=True,
        ),
    ] = None


class LimitsSection(Section):
    cost_per_turn_usd: Annotated[
        Number | None,
        Setting(
            "spending limit of one turn in dollars, checked before each model call",
            see="spending.md",
        ),
    ] = None
    cost_per_session_usd: Annotated[Number | None, Setting("the same for a conversation")] = None
    cost_per_chat_day_usd: Annotated[Number | None, Setting("the same for a chat and a day")] = None
    cost_per_day_usd: Annotated[Number | None, Setting("the same for all chats and a day")] = None
    tokens_per_turn: Annotated[Whole | None, Setting("tokens of one turn, input and output")] = None


class SubagentsSection(Section):
    max_depth: Annotated[
        int,
        Strict(),
        Field(ge=0, le=3),
        Setting(
            "how deep sub-agents may be nested, 0 to 3; 0: no sub-agents",
            see="agents.md#running-sub-agents",
        ),
    ] = 1
    max_parallel: Annotated[
        Whole, Field(le=16), Setting("sub-agents of one conversation that run at a time, 1 to 16")
    ] = 4
    max_cost_usd: Annotated[
        Number | None, Setting("dollars for one sub-agent", widens_access=True)
    ] = None


class HttpSection(Section):
    host: Annotated[
        Word, Setting("where `kore gateway` serves `/healthz` and `/metrics`; loopback only")
    ] = "127.0.0.1"
    port: Annotated[int, Strict(), Field(ge=0, le=65535), Setting("its port; 0: any free port")] = (
        8787
    )


class ServerSection(Section):
    listen: Annotated[
        ListenText | None,
        Setting(
            "where `kore gateway` serves the protocol for clients and the web: `127.0.0.1:8790`, "
            "`unix:/PATH` or `auto`; null: nowhere",
            see="server.md",
        ),
    ] = None
    tls_cert: Annotated[FilePath | None, Setting("certificate for TLS 1.3")] = None
    tls_key: Annotated[FilePath | None, Setting("its key")] = None
    client_ca: Annotated[
        FilePath | None, Setting("clients must show a certificate that it signed")
    ] = None
    hosts: Annotated[
        tuple[Word, ...],
        Setting("further host names that the server has, with the port unless it is 80 or 443"),
    ] = ()
    insecure: Annotated[Flag, Setting("allow other machines without TLS")] = False
    terminal: Annotated[
        Literal["off", "sandbox", "full"],
        Setting(
            "shells in the browser for `admin` tokens: in the `sandbox`, or `full` without one",
            see="server.md#terminals",
        ),
    ] = "off"
    max_connections: Annotated[
        Whole, Field(ge=8, le=100_000), Setting("connections that may be open at a time")
    ] = 500


class AccessSection(Section):
    owner: Annotated[
        Principal | None,
        Setting(
            f"`{DEFAULT_CHANNEL}:123456`, or the number alone; null: the only id on "
            f"`{DEFAULT_CHANNEL}.allow_from`, else the first person paired",
            see="access.md",
        ),
    ] = None
    roles: Annotated[
        dict[Audience, RoleName],
        Setting(
            f"roles by person (`{DEFAULT_CHANNEL}:123`), chat (`{DEFAULT_CHANNEL}:chat:-100123`) "
            f"or channel (`{DEFAULT_CHANNEL}`), in this order of precedence. The owner always has "
            "`build`, also in groups. Otherwise, people on `allow_from` and paired people have "
            "`general`, and "
            'people who got access only through `"*"` have `guest`. A role doesn\'t grant access'
        ),
    ] = Field(default_factory=dict)


class GoalsSection(Section):
    max_turns: Annotated[
        Whole, Field(ge=1), Setting("turns for a goal, until it is paused", see="goals.md")
    ] = 20
    max_hours: Annotated[
        Number, Field(gt=0), Setting("hours of work for a goal, counted after each turn")
    ] = 2.0
    max_cost_usd: Annotated[
        Number | None, Setting("cost of a goal in dollars, with its checks; null: no limit")
    ] = 5.0


class ScheduleSection(Section):
    zone: Annotated[
        ZoneName | None,
        Setting(
            "the time zone of jobs, by its IANA name; null: the one in USER.md, else the machine's",
            see="scheduling.md",
        ),
    ] = None
    quiet_hours: Annotated[
        Hours | None,
        Setting("such as `22:00-07:00`: jobs that are due then wait; a chat can set its own"),
    ] = None
    max_jobs: Annotated[Whole, Setting("jobs per person")] = 50
    min_interval_s: Annotated[
        Whole, Field(ge=1), Setting("the minimum seconds between two runs")
    ] = 60
    max_failures: Annotated[
        Whole, Field(ge=1), Setting("a job is turned off after this many failures in a row")
    ] = 3
    heartbeat_minutes: Annotated[
        Annotated[Whole, Field(ge=1)] | None,
        Setting("how often HEARTBEAT.md is checked; null: never"),
    ] = None


class LoggingSection(Section):
    level: Annotated[LogLevel, Setting("`debug`, `info`, `warning`, `error`")] = "info"
    file: Annotated[Path | None, Setting("null: `~/.kore/logs/kore.log`", is_path=True)] = None
    file_mb: Annotated[
        Whole, Field(le=1000), Setting("size at which the log file is rotated; at most 1000")
    ] = 10
    files_kept: Annotated[
        Whole, Field(le=100), Setting("how many old files are kept; at most 100")
    ] = 5


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
    trusted_with_private_data: Flag = False
    timeout_s: Annotated[Number, Field(gt=0)] = 120
    start_timeout_s: Annotated[Number, Field(gt=0)] = 30
    protocol: Literal["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] | None = None


class LspSection(Section):
    enabled: Annotated[Flag, Setting("use language servers", see="language-servers.md")] = True
    before_write: Annotated[
        Literal["off", "report", "block"],
        Setting(
            "an edit that brings new errors: `report` tells them, `block` does not write it, `off`"
            " does not look"
        ),
    ] = "report"
    idle_s: Annotated[
        Number, Field(gt=0), Setting("seconds after which a server that nobody asks is ended")
    ] = 900
    wait_s: Annotated[
        Number, Field(gt=0, le=120), Setting("seconds that an edit waits for a server at most")
    ] = 10
    timeout_s: Annotated[Number, Field(gt=0, le=600), Setting("seconds for an answer")] = 30


class LspServer(Section):
    """A language server, or changes to one that Kore knows: see docs/language-servers.md."""

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
    """A shell command that receives the event as JSON on its standard input."""

    type: Literal["command"] = "command"
    command: Word
    timeout: Annotated[Number, Field(gt=0, le=600)] = 60


HookEventName = Literal[
    "PreToolUse", "PostToolUse", "SessionStart", "UserPromptSubmit", "Stop", "Notification"
]
HOOK_EVENTS: tuple[HookEventName, ...] = get_args(HookEventName)


class HookMatcher(Section):
    """Commands for the tools that match a pattern: see docs/hooks.md."""

    matcher: Pattern = ""
    hooks: tuple[HookCommand, ...]


HookTable = Mapping[HookEventName, Sequence[HookMatcher]]


@frozen
class HookSource:
    """Hooks and their origin, in words.

    `variables` are set for their commands. Their output is untrusted unless they are the person's
    `own`.
    """

    origin: str
    hooks: HookTable
    variables: Mapping[str, str] = field(default_factory=dict)
    is_own: bool = True
