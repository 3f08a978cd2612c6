"""What an agent can be told, as plain values; reading files and environments is the caller's."""

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from agent.records import frozen
from agent.security.sandbox.base import Limits, Sandbox


@frozen
class ToolSettings:
    """Limits and boundaries of the built-in tools.

    `output_limit_bytes` bounds what one result gives the model to read, `read_limit_bytes` what
    one call of `read_file` does. `blocked_paths` are
    components, or sequences of them, that no path may contain; `off_limits` are files and folders
    that no file tool opens, whatever else is allowed. Without a `sandbox` commands can do
    all that the user can; in one they reach `exec_hosts` alone ("*.example.org" for all below it).
    With `limits`, commands that use up more than these together are ended; a sandbox has its own
    for each process. In `temporary_folder` each conversation has the /tmp of its commands, without
    it as long as the agent lives. `full_access` is what `with_full_access` sets.
    """

    exec_timeout_s: float = 60
    output_limit_bytes: int = 30_000
    read_limit_bytes: int = 50_000
    web_search_results: int = 5
    restrict_to_workspace: bool = True
    blocked_paths: tuple[str, ...] = (".git", ".env", "node_modules/.cache")
    off_limits: tuple[Path, ...] = ()
    sandbox: Sandbox | None = None
    exec_hosts: tuple[str, ...] = ()
    limits: Limits | None = None
    temporary_folder: Path | None = None
    full_access: bool = False

    def with_full_access(self) -> "ToolSettings":
        """The same without the bounds that a sandbox and paths set; `off_limits` stay closed."""
        from agent.security.sandbox.unconfined import Unconfined

        return replace(
            self,
            restrict_to_workspace=False,
            blocked_paths=(),
            sandbox=Unconfined(passes_environment=True),
            full_access=True,
        )


# What happens to an edit that brings new errors: nothing is looked at, they are told with the
# result, or it is not written.
BeforeWrite = Literal["off", "report", "block"]


@frozen
class LspServerSettings:
    """A language server: its program with arguments, and the ends of the names of its files
    (".py"). `languages` gives their language ids where they are not the usual ones. `options` are
    what it is told at its start, `settings` what it asks for later; `root_files` stand at the top
    of a project. Only one that a person has `configured` runs outside of a sandbox; the command of
    one that came with a plugin opens only what is in the `plugin_folder`."""

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
    """Language servers: `servers` are configured and come before those that Kore knows, of which
    `without` names those that are not used. `folder` holds their homes and logs; without one it
    lasts as long as the agent. One that nobody asks for `idle_s` is ended; a check before a write
    waits `wait_s` at most, an answer `timeout_s`. With `watch` they are told what changes on the
    disk."""

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
    """How deep sub-agents may send out others (0: there are none), how many of one conversation
    run at a time, and what one may cost."""

    max_depth: int = 1
    max_parallel: int = 4
    max_cost_usd: float | None = None


@frozen
class AgentSettings:
    """Limits and defaults. `call_timeout_s` bounds one tool call, `max_iterations` model calls.

    `thinking` asks models to think, or not to; None leaves it to them.
    `secrets` are values that leave in no event, result or message, beside the models' keys; words
    are not kept back (see `agent.security.secret_values`).
    What projects in `trusted_folders` bring along is the owner's own word; elsewhere, and outside
    of the workspace, it is a stranger's. With `watch`, a turn tells which files of its folder
    change while it runs, whoever changes them. `project` says that the workspace is one: the model
    is shown its tree and told how to work on code.
    """

    max_iterations: int = 200
    temperature: float | None = None
    max_tokens: int | None = None
    thinking: bool | None = None
    call_timeout_s: float = 900
    tools: ToolSettings = field(default_factory=ToolSettings)
    subagents: SubagentLimits = field(default_factory=SubagentLimits)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)
    trusted_folders: tuple[Path, ...] = ()
    lsp: LspSettings = field(default_factory=LspSettings)
    watch: bool = False
    project: bool = False
