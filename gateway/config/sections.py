"""One frozen model for each section of config.json.

Values are strict: a number written as a string is an error, not a guess. Secrets are `SecretStr`.
Each key is annotated with a `Setting`, from which `make schema` writes docs/settings.md and
config.example.json.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, SecretStr, Strict, Tag

from agent.records import frozen
from agent.security.policy.base import PermissionMode
from agent.turn.hook_events import DEFINITIONS, HookEventName
from agent.types import ReasoningEffort
from gateway.config.setting import Setting
from gateway.config.value_types import (
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
    NetworkEntry,
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
            "the model that answers: a `model_name` of `model_list`, or `vendor/model`. If "
            "`default` is not in the list: a vendor whose key is in the environment, otherwise "
            "Ollama, otherwise the offline stand-in",
            reload="at_once",
        ),
    ] = "default"
    workspace: Annotated[
        Path,
        Setting(
            "the assistant's folder: prompt files, memory and the files that tools work on",
            widens_access=True,
            is_path=True,
        ),
    ] = Path("~/.kore/workspace")
    worktrees: Annotated[
        Path | None,
        Setting(
            "the folder for git worktrees; null: `NAME.worktrees` next to the repository",
            see="worktrees.md",
            widens_access=True,
            is_path=True,
        ),
    ] = None
    max_iterations: Annotated[
        Whole,
        Setting("maximum number of model calls in one turn", reload="at_once", is_harmless=True),
    ] = 200
    temperature: Annotated[
        Temperature | None,
        Setting(
            "sampling temperature, 0 to 2; null: the vendor's default",
            reload="at_once",
            is_harmless=True,
        ),
    ] = None
    max_tokens: Annotated[
        Whole | None,
        Setting("maximum length of one reply, in tokens", reload="at_once", is_harmless=True),
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
            "the model to use when a model fails, or a list to try in order",
            see="models.md#when-a-model-fails",
            reload="at_once",
        ),
    ] = None
    find_local_models: Annotated[
        bool,
        Setting(
            "look for model servers on this machine, and use one if no other model is known",
            see="models.md#which-model-is-used",
            reload="at_once",
        ),
    ] = True
    language: Annotated[
        Language,
        Setting(
            "language of Kore's own messages: `en`, `zh-Hans` or `zh-Hant` (or tags such as "
            "`zh-TW`); `auto`: the language of each person's app or terminal",
            see="languages.md",
            reload="at_once",
        ),
    ] = "auto"
    start_in: Annotated[
        Literal["project", "workspace"],
        Setting(
            "where `kore agent` works without `--cwd`: in the `project` around the current folder, "
            "or in the `workspace`",
            see="context.md#the-working-folder",
            widens_access=True,
        ),
    ] = "project"
    default_agent: Annotated[
        Word | None,
        Setting(
            "the agent that answers unless the conversation (`/agent`) or the chat's settings name "
            "another",
            see="agents.md#talking-to-an-agent",
            widens_access=True,
        ),
    ] = None


class ModelEntry(Section):
    """A named model."""

    model_name: Annotated[
        Word,
        Setting(
            "the name by which other settings, `--model` and `/model` refer to it",
            example="my-model",
        ),
    ]
    model: Annotated[VendorModel, Setting("`vendor/model`", example="openai/gpt-4")]
    api_base: Annotated[
        Url | None,
        Setting(
            "an address other than the vendor's; Kore adds `/v1` if the vendor's API needs it, and "
            "removes it for `ollama`",
            widens_access=True,
            example="https://my-proxy.com/v1",
        ),
    ] = None
    api_key: Annotated[
        SecretStr | None, Setting("the API key; null: the vendor's environment variable")
    ] = None
    api_keys: Annotated[
        tuple[SecretStr, ...],
        Setting(
            "several keys instead of `api_key`, tried in this order",
            see="models.md#when-a-model-fails",
            example=("sk-...", "sk-..."),
        ),
    ] = ()
    transport: Annotated[
        Literal["aiohttp", "sdk"],
        Setting(
            "how requests are sent: `aiohttp`, or the vendor's `sdk`", see="models.md#api-formats"
        ),
    ] = "aiohttp"
    context_tokens: Annotated[
        Whole | None,
        Setting(
            "size of the context window in tokens, if Kore does not know it or a smaller one is "
            "enough; `ollama` loads the model with this size (default 32768)",
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
            "dollars per million input tokens; overrides Kore's built-in price",
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
        Setting("dollars per million cached input tokens", widens_access=True),
    ] = None
    tools: Annotated[
        Literal["native", "xml"] | None,
        Setting(
            "how the model calls tools: `native` or `xml`; null: detected",
            see="models.md#models-without-tool-support",
        ),
    ] = None
    api: Annotated[
        Literal["chat", "responses"] | None,
        Setting(
            "`chat` or `responses`: which of OpenAI's two APIs to use; null: the one that the "
            "model needs",
            see="models.md#api-formats",
        ),
    ] = None
    images: Annotated[
        Flag | None,
        Setting(
            "whether the model accepts pictures; null: according to Kore's table",
            see="models.md#what-kore-knows-of-models",
        ),
    ] = None
    reasoning: Annotated[
        Flag | None,
        Setting(
            "whether the model can think before it answers; null: according to Kore's table",
            see="models.md#what-kore-knows-of-models",
        ),
    ] = None
    headers: Annotated[
        dict[HeaderName, SecretStr],
        Setting(
            'headers of every request, such as `{"anthropic-version": "2023-06-01"}`; values may '
            "contain `${NAME}`",
            widens_access=True,
        ),
    ] = Field(default_factory=dict)
    timeout_s: Annotated[
        Annotated[Number, Field(ge=1, le=86_400)] | None,
        Setting(
            "seconds without data after which a request fails; null: 120 before the first byte and "
            "60 after it, 1800 for servers on the local network",
            see="models.md#slow-servers",
        ),
    ] = None
    proxy: Annotated[
        ProxyUrl | None,
        Setting(
            "the proxy for requests to the address, or `none`", see="proxies.md", widens_access=True
        ),
    ] = None


class ProfilesSection(Section):
    default: Annotated[
        Word,
        Setting(
            "the model that answers if `agent.model` does not name one", see="models.md#profiles"
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
        Setting("the model for small background tasks", see="models.md#profiles", example="local"),
    ] = "default"


class MediaSection(Section):
    """Files that people send."""

    max_file_mb: Annotated[
        Whole,
        Field(ge=1, le=2000),
        Setting(
            "the largest file to accept in megabytes, at most 2000; a platform may allow less",
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
    api_key: Annotated[SecretStr | None, Setting("API key of the service")] = None
    model: Annotated[Word, Setting("model of the service")] = "whisper-1"
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
    """A service that generates pictures."""

    api_base: Annotated[
        Url | None,
        Setting(
            "an OpenAI-compatible service that generates pictures; null: none",
            see="creative-tools.md#pictures",
            widens_access=True,
        ),
    ] = None
    api_key: Annotated[SecretStr | None, Setting("API key of the service")] = None
    model: Annotated[Word, Setting("model of the service")] = "gpt-image-1"
    size: Annotated[
        Word | None, Setting("a size such as `1024x1024`; null: the service decides")
    ] = None
    ask: Annotated[Flag, Setting("ask before generating a picture", widens_access=True)] = True
    price_usd: Annotated[
        Number | None,
        Setting("price of one picture in dollars", see="spending.md", widens_access=True),
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
    api_key: Annotated[SecretStr | None, Setting("API key of the service")] = None
    model: Annotated[Word, Setting("model of the service")] = "tts-1"
    voice: Annotated[Word, Setting("voice of the service")] = "alloy"
    replies: Annotated[
        Literal["voice", "private", "never"],
        Setting(
            "which answers are also spoken: answers to `voice` messages, all answers in `private` "
            "chats, or none (`never`)"
        ),
    ] = "voice"


class MemorySection(Section):
    embeddings: Annotated[
        Word | None,
        Setting(
            "an embedding model: a `model_name` of `model_list` or `vendor/model`, such as "
            "`openai/text-embedding-3-small` or `ollama/bge-m3`. With it, `memory_search` also "
            "finds texts with the same meaning in different words",
            see="memory.md#by-meaning",
        ),
    ] = None


class ToolsSection(Section):
    exec_timeout_s: Annotated[
        Number, Field(gt=0), Setting("default timeout of a command in seconds")
    ] = 60
    output_limit_bytes: Annotated[
        Whole,
        Field(ge=1000),
        Setting("bytes of one tool result that the model receives; at least 1000"),
    ] = 30_000
    read_limit_bytes: Annotated[
        Whole, Field(ge=1000), Setting("bytes that one call of `read_file` returns; at least 1000")
    ] = 50_000
    web_search_results: Annotated[
        Whole, Field(le=50), Setting("results per web search, at most 50")
    ] = 5
    summarize: Annotated[
        Flag, Setting("offer a tool that summarizes a long file", see="creative-tools.md")
    ] = False
    asset_export: Annotated[
        Flag,
        Setting(
            "offer a tool that packs files into a zip file",
            see="creative-tools.md",
            widens_access=True,
        ),
    ] = False


class ContextSection(Section):
    max_tokens: Annotated[
        Annotated[Whole, Field(ge=1000)] | None,
        Setting("upper limit of every model's context window, in tokens"),
    ] = None
    max_tree_depth: Annotated[
        Whole, Setting("depth of the file tree of a project that the model sees", see="context.md")
    ] = 5
    max_files_per_dir: Annotated[Whole, Setting("entries per folder of this tree")] = 50
    watch: Annotated[
        Flag,
        Setting(
            "watch a project's files, to show changes immediately",
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
            "sandbox for commands: `bwrap`, `landlock`, `container` or `none`; `auto`: the first "
            "that works on this machine",
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
            "commands may run programs installed by version managers in your home folder (pyenv, "
            "nvm, cargo, uv, go and others)"
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
        Word, Setting("image of the sandbox `container`; Kore never pulls it")
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
    exec_disposable: Annotated[
        tuple[LocalServiceText, ...],
        Field(max_length=32),
        Setting(
            "services of `security.exec_local` whose data may be lost, such as a test database: in "
            "`accept-edits`, their clients (`psql`) run without a question",
            see="local-services.md#data-of-services",
        ),
    ] = ()
    exec_env: Annotated[
        Variables,
        Setting(
            'environment variables of commands, such as `{"JAVA_HOME": "${JAVA_HOME}"}`; secrets '
            "are refused",
            see="sandbox.md#what-a-command-can-do",
            widens_access=True,
        ),
    ] = Field(default_factory=dict)
    exec_processes: Annotated[
        Whole,
        Field(ge=8, le=30_000),
        Setting("processes that one command may run simultaneously; at least 8"),
    ] = 256
    exec_file_mb: Annotated[
        Whole, Setting("largest file that a command may write, in megabytes")
    ] = 1000
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
            "commands denied in every mode (with the default list, `rm` and `del` only without a "
            "sandbox); a safeguard against mistakes, not a security boundary",
            reload="at_once",
        ),
    ] = ("rm", "sudo", "shutdown", "format", "del")
    blocked_paths: Annotated[
        tuple[Word, ...],
        Setting("path components that no tool may access", reload="at_once"),
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
            "seconds until an unanswered question counts as denied, in the terminal and in chats; "
            "null: questions do not expire",
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
            "storage for files that other machines need: the full path of a folder, or "
            "`s3://BUCKET/PREFIX?endpoint=URL&region=NAME`",
            see="shared-files.md",
            widens_access=True,
        ),
    ] = None
    lease_s: Annotated[
        Number,
        Field(ge=1),
        Setting(
            "on PostgreSQL, seconds without a heartbeat of the owner after which a standby gateway "
            "replaces it",
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
            "`nats://HOST:PORT` or `tls://HOST:PORT`: a NATS server for notifications between the "
            "processes of one Kore; null: the database server",
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
    cost_per_session_usd: Annotated[
        Number | None, Setting("spending limit of a conversation in dollars")
    ] = None
    cost_per_chat_day_usd: Annotated[
        Number | None, Setting("spending limit of a chat per day in dollars")
    ] = None
    cost_per_day_usd: Annotated[
        Number | None, Setting("spending limit of all chats per day in dollars")
    ] = None
    tokens_per_turn: Annotated[
        Whole | None, Setting("token limit of one turn, input and output")
    ] = None


class SubagentsSection(Section):
    max_depth: Annotated[
        int,
        Strict(),
        Field(ge=0, le=3),
        Setting(
            "nesting depth of sub-agents, 0 to 3; 0: no sub-agents",
            see="agents.md#running-sub-agents",
        ),
    ] = 1
    max_parallel: Annotated[
        Whole,
        Field(le=16),
        Setting("sub-agents of one conversation that run simultaneously, 1 to 16"),
    ] = 4
    max_cost_usd: Annotated[
        Number | None, Setting("spending limit of one sub-agent in dollars", widens_access=True)
    ] = None
    worktrees: Annotated[
        Flag,
        Setting(
            "parallel sub-agents that may change files get a git worktree each, in a project with "
            "git and without uncommitted changes",
            see="worktrees.md#sub-agents",
        ),
    ] = True


class HttpSection(Section):
    host: Annotated[
        Word,
        Setting("address at which `kore gateway` serves `/healthz` and `/metrics`; loopback only"),
    ] = "127.0.0.1"
    port: Annotated[
        int, Strict(), Field(ge=0, le=65535), Setting("port of `http.host`; 0: any free port")
    ] = 8787


class ServerSection(Section):
    listen: Annotated[
        ListenText | None,
        Setting(
            "address at which `kore gateway` serves clients and the web page: `127.0.0.1:8790`, "
            "`unix:/PATH` or `auto`; null: none",
            see="server.md",
        ),
    ] = None
    tls_cert: Annotated[FilePath | None, Setting("file with the certificate for TLS 1.3")] = None
    tls_key: Annotated[FilePath | None, Setting("file with the key of the certificate")] = None
    client_ca: Annotated[
        FilePath | None,
        Setting("file with the CA certificate; clients must present a certificate signed by it"),
    ] = None
    hosts: Annotated[
        tuple[Word, ...],
        Setting("additional host names of the server, with the port unless it is 80 or 443"),
    ] = ()
    insecure: Annotated[Flag, Setting("accept connections from other machines without TLS")] = False
    terminal: Annotated[
        Literal["off", "sandbox", "full"],
        Setting(
            "shells in the browser for `admin` tokens: in the `sandbox`, or `full` without one",
            see="server.md#terminals",
        ),
    ] = "off"
    max_connections: Annotated[
        Whole, Field(ge=8, le=100_000), Setting("maximum number of open connections")
    ] = 500


class AccessSection(Section):
    owner: Annotated[
        Principal | None,
        Setting(
            f"the owner: `{DEFAULT_CHANNEL}:123456`, or the number alone; null: the only id in "
            f"`{DEFAULT_CHANNEL}.allow_from`, otherwise the first paired person",
            see="access.md",
        ),
    ] = None
    roles: Annotated[
        dict[Audience, RoleName],
        Setting(
            f"roles by person (`{DEFAULT_CHANNEL}:123`), chat (`{DEFAULT_CHANNEL}:chat:-100123`) "
            f"or channel (`{DEFAULT_CHANNEL}`), in this order of precedence. The owner always has "
            "`build`, also in groups. By default, people in `allow_from` and paired people have "
            "`general`, and "
            'people who got access only through `"*"` have `guest`. A role doesn\'t grant access'
        ),
    ] = Field(default_factory=dict)


class GoalsSection(Section):
    max_turns: Annotated[
        Whole, Field(ge=1), Setting("turns after which a goal is paused", see="goals.md")
    ] = 20
    max_hours: Annotated[
        Number,
        Field(gt=0),
        Setting("hours of work after which a goal is paused, counted after each turn"),
    ] = 2.0
    max_cost_usd: Annotated[
        Number | None,
        Setting("cost in dollars, including checks, at which a goal is paused; null: no limit"),
    ] = 5.0


class ScreensSection(Section):
    notify_after_s: Annotated[
        Number | None,
        Field(ge=0),
        Setting(
            "seconds after which the end of a turn is worth a notification of a person who looks "
            "elsewhere, as each question is; null: no notifications",
            see="console.md#notifications",
        ),
    ] = 10.0


class ScheduleSection(Section):
    zone: Annotated[
        ZoneName | None,
        Setting(
            "IANA name of the jobs' time zone; null: the zone in USER.md, otherwise the machine's",
            see="scheduling.md",
        ),
    ] = None
    quiet_hours: Annotated[
        Hours | None,
        Setting("hours in which due jobs wait, such as `22:00-07:00`; a chat can set its own"),
    ] = None
    max_jobs: Annotated[Whole, Setting("maximum number of jobs per person")] = 50
    min_interval_s: Annotated[
        Whole, Field(ge=1), Setting("minimum number of seconds between two runs of a job")
    ] = 60
    max_failures: Annotated[
        Whole, Field(ge=1), Setting("a job is turned off after this many failures in a row")
    ] = 3
    heartbeat_minutes: Annotated[
        Annotated[Whole, Field(ge=1)] | None,
        Setting("minutes between two checks of HEARTBEAT.md; null: no checks"),
    ] = None


class LoggingSection(Section):
    level: Annotated[
        LogLevel, Setting("lowest level to log: `debug`, `info`, `warning` or `error`")
    ] = "info"
    file: Annotated[
        Path | None, Setting("the log file; null: `~/.kore/logs/kore.log`", is_path=True)
    ] = None
    file_mb: Annotated[
        Whole,
        Field(le=1000),
        Setting("size at which the log file is rotated, in megabytes; at most 1000"),
    ] = 10
    files_kept: Annotated[
        Whole, Field(le=100), Setting("number of rotated files to keep; at most 100")
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
    folders: dict[Folder, Literal["read", "write"]] = Field(default_factory=dict)
    read_only: Flag = False
    network: tuple[NetworkEntry, ...] = ("*",)
    tools: tuple[Word, ...] = ("*",)
    without_tools: tuple[Word, ...] = ()
    allow: tuple[Word, ...] = ()
    private: Flag | None = None
    trusted_with_private_data: Flag = False
    timeout_s: Annotated[Number, Field(gt=0)] = 120
    start_timeout_s: Annotated[Number, Field(gt=0)] = 120
    protocol: Literal["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] | None = None


class LspSection(Section):
    enabled: Annotated[Flag, Setting("use language servers", see="language-servers.md")] = True
    before_write: Annotated[
        Literal["off", "report", "block"],
        Setting(
            "what to do about an edit that introduces errors: `report` them, `block` the edit, or "
            "`off` (no check)"
        ),
    ] = "report"
    idle_s: Annotated[
        Number, Field(gt=0), Setting("seconds after which an unused server is stopped")
    ] = 900
    wait_s: Annotated[
        Number, Field(gt=0, le=120), Setting("maximum seconds that an edit waits for a server")
    ] = 10
    timeout_s: Annotated[
        Number, Field(gt=0, le=600), Setting("timeout of a request to a server in seconds")
    ] = 30


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
    """A shell command that receives the event as JSON on its standard input.

    Without a `timeout`, the event's applies. Nothing waits for an `async` command.
    """

    type: Literal["command"] = "command"
    command: Word
    timeout: Annotated[Number, Field(gt=0, le=600)] | None = None
    is_async: Annotated[Flag, Field(alias="async")] = False

    @property
    def title(self) -> str:
        return self.command

    @property
    def kind(self) -> str:
        """Type of the hook and the options that change its effect, in words of the format."""
        return "command, async" if self.is_async else "command"


class HookPrompt(Section):
    """A prompt about the event that a model answers."""

    type: Literal["prompt"]
    prompt: Word
    model: Word | None = None
    timeout: Annotated[Number, Field(gt=0, le=600)] = 30
    continues_on_block: Annotated[Flag, Field(alias="continueOnBlock")] = False

    @property
    def title(self) -> str:
        return self.prompt

    @property
    def kind(self) -> str:
        model = "" if self.model is None else f", model {self.model}"
        return f"prompt{model}{', continueOnBlock' if self.continues_on_block else ''}"


def _hook_type(value: Any) -> Any:
    """Return the type of a hook; an entry without one is a command."""
    if isinstance(value, Mapping):
        return value.get("type", "command")
    return getattr(value, "type", None)


class HookMatcher(Section):
    """Hooks for the tools or the input that match a pattern: see docs/hooks.md."""

    matcher: Pattern = ""
    hooks: tuple[
        Annotated[
            Annotated[HookCommand, Tag("command")] | Annotated[HookPrompt, Tag("prompt")],
            Discriminator(_hook_type),
        ],
        ...,
    ]


HookTable = Mapping[HookEventName, Sequence[HookMatcher]]


def check_hooks(
    hooks: dict[HookEventName, tuple[HookMatcher, ...]],
) -> dict[HookEventName, tuple[HookMatcher, ...]]:
    """Raise ValueError for a prompt at an event that only commands can handle."""
    for event, matchers in hooks.items():
        types = {hook.type for matcher in matchers for hook in matcher.hooks}
        if "prompt" in types and not DEFINITIONS[event].takes_prompts:
            raise ValueError(f"{event} has no hooks of the type prompt")
    return hooks


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
