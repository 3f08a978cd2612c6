"""Settings of an agent as plain values; reading files and environments is up to the caller."""

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from agent.records import frozen
from agent.security.local_services import OwnServices
from agent.security.sandbox.base import Limits, Sandbox
from agent.security.sandbox.unconfined import Unconfined
from agent.security.taint.worktree_record import WorktreeRecord
from agent.types import ReasoningEffort


@frozen
class ToolSettings:
    """Limits and boundaries of the built-in tools.

    `output_limit_bytes` limits the text of one result for the model, `read_limit_bytes` the text of
    one call of `read_file`. `blocked_paths` are components, or sequences of components, that no
    path may contain; `off_limits` are files and folders that no tool opens, regardless of other
    permissions. `fixed_files`, such as a policy file, decide what tools may do: commands in a
    sandbox can read them, file tools never open them. Without a `sandbox`, commands can do
    everything that the user can; in a sandbox they reach only `exec_hosts` ("*.example.org" for all
    subdomains) and, in the owner's conversations, the local services `exec_local`
    ("127.0.0.1:5432"), never `own_services`; of these, `exec_disposable` have data that may be
    lost. Commands get the variables `exec_env`, and can reveal
    them. With `limits`, commands that together exceed these are ended; a sandbox has its own limits
    for each process.
    `temporary_folder` contains the /tmp of each conversation's commands; without it they last as
    long as the agent. `full_access` is set by `with_full_access`.
    """

    exec_timeout_s: float = 60
    output_limit_bytes: int = 30_000
    read_limit_bytes: int = 50_000
    web_search_results: int = 5
    restrict_to_workspace: bool = True
    blocked_paths: tuple[str, ...] = (".git", ".env", "node_modules/.cache")
    off_limits: tuple[Path, ...] = ()
    fixed_files: tuple[Path, ...] = ()
    sandbox: Sandbox | None = None
    exec_hosts: tuple[str, ...] = ()
    exec_local: tuple[str, ...] = ()
    exec_disposable: tuple[str, ...] = ()
    own_services: OwnServices = field(default_factory=OwnServices)
    exec_env: Mapping[str, str] = field(default_factory=dict)
    limits: Limits | None = None
    temporary_folder: Path | None = None
    full_access: bool = False

    def with_full_access(self) -> "ToolSettings":
        """Return the settings without sandbox and path limits.

        `off_limits` and `fixed_files` stay closed.
        """
        return replace(
            self,
            restrict_to_workspace=False,
            blocked_paths=(),
            sandbox=Unconfined(passes_environment=True),
            full_access=True,
        )


# Handling of an edit that introduces new errors: no check, a report with the result, or a
# rejection.
BeforeWrite = Literal["off", "report", "block"]


@frozen
class LspServerSettings:
    """Language server: its program with arguments, and the extensions of its files (".py").

    `languages` maps extensions to language ids that differ from the usual ids. `options` are sent
    at startup, `settings` on request; `root_files` are files at the top of a project. Only a server
    that a person has `configured` runs outside of a sandbox; the command of a server from a plugin
    opens only files in the `plugin_folder`.
    """

    name: str
    command: tuple[str, ...]
    extensions: tuple[str, ...]
    languages: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    root_files: tuple[str, ...] = ()
    configured: bool = True
    plugin_folder: Path | None = None


@frozen
class LspSettings:
    """Language servers: `servers` are configured and precede the built-in ones.

    `without` names built-in servers that are not used. `folder` contains their homes and logs;
    without it, they last as long as the agent. A server without requests for `idle_s` is ended; a
    check before a write waits at most `wait_s`, other requests `timeout_s`. With `watch`, the
    servers are notified of changes on disk.
    """

    enabled: bool = True
    before_write: BeforeWrite = "report"
    servers: tuple[LspServerSettings, ...] = ()
    without: frozenset[str] = frozenset()
    folder: Path | None = None
    idle_s: float = 900
    wait_s: float = 10
    timeout_s: float = 30
    watch: bool = True


@frozen
class SubagentLimits:
    """Limits of sub-agents: maximum depth, number at a time per conversation, and cost of each.

    With a maximum depth of 0, there are no sub-agents. With `worktrees`, parallel sub-agents that
    write to a project each get a git worktree.
    """

    max_depth: int = 1
    max_parallel: int = 4
    max_cost_usd: float | None = None
    worktrees: bool = True

    def may_spawn(self, depth: int) -> bool:
        """Return whether an agent at this depth may start sub-agents; a person's turn is at 0."""
        return depth < self.max_depth


@frozen
class AgentSettings:
    """Limits and defaults. `call_timeout_s` limits one tool call, `max_iterations` model calls.

    `effort` is the effort of models; None means each model's default. `secrets` are values that
    never appear in an event, result or message, like the models' keys; ordinary words are not
    redacted (see `agent.security.secret_values`). Content of projects in `trusted_folders` and of
    their recorded `worktrees` counts as the owner's text; content elsewhere outside of the
    workspace counts as a stranger's. New worktrees are created in `worktrees_parent` (None: next to
    the repository). With `watch`, a turn reports all files in its folder that change while it runs.
    `project`: the workspace is a project; the model sees its tree and instructions for work on
    code.
    """

    max_iterations: int = 200
    temperature: float | None = None
    max_tokens: int | None = None
    effort: ReasoningEffort | None = None
    call_timeout_s: float = 900
    tools: ToolSettings = field(default_factory=ToolSettings)
    subagents: SubagentLimits = field(default_factory=SubagentLimits)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    trusted_folders: tuple[Path, ...] = ()
    worktrees: WorktreeRecord | None = None
    worktrees_parent: Path | None = None
    lsp: LspSettings = field(default_factory=LspSettings)
    watch: bool = False
    project: bool = False
