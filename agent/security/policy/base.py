"""Port for policies: requests, decisions, deletions, approvers and tool names."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, Protocol, TypeGuard, runtime_checkable

from agent.approvals import Answer, ApprovalRequest, Recipient, Scope
from agent.errors import KoreError
from agent.records import frozen
from agent.security.shell.path_scope import NO_SANDBOX, SandboxScope
from agent.text.similar_names import folded
from agent.types import Effect, PolicyScope, Taint, ToolKind, ToolPurpose

Verdict = Literal["allow", "ask", "deny"]
# Prefix of the names of MCP tools.
SERVER_TOOLS = "mcp__"


# The reason why undo would not restore a file: history of a repository, ignored by git, too large,
# beyond the limits of the folder, unreadable, closed to tools, outside of the folder, or not
# recorded.
LossCause = Literal[
    "git",
    "ignored",
    "large",
    "limit",
    "unreadable",
    "closed",
    "outside",
    "unrecorded",
    "unprotected",
]


@frozen
class Deletion:
    """Files that a call deletes, as names for people.

    Undo can restore the `restorable` files, but not the `lost` ones, which are grouped by cause.
    With `is_chosen_later` the program decides what to delete when it runs, and undo could not
    restore the `possible` files. The `unseen` files are outside of the folder, invisible to a
    confined command.
    """

    restorable: tuple[str, ...] = ()
    lost: tuple[tuple[LossCause, tuple[str, ...]], ...] = ()
    possible: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    is_chosen_later: bool = False

    @property
    def is_final(self) -> bool:
        """True if undo would not restore everything."""
        return bool(self.lost or self.possible)


# Tools whose rules in a role govern reading files, writing files and running commands.
READING_TOOL = "read_file"
WRITING_TOOL = "write_file"
COMMAND_TOOL = "exec"


class PolicyTraits(Protocol):
    """Traits of a tool that policies and tool lists use."""

    @property
    def kind(self) -> ToolKind: ...
    @property
    def scopes(self) -> Collection[PolicyScope]: ...
    @property
    def purpose(self) -> ToolPurpose | None: ...
    @property
    def only_adds(self) -> bool: ...
    @property
    def governed_by(self) -> str | None: ...
    @property
    def aliases(self) -> Collection[str]: ...
    @property
    def companion_of(self) -> str | None: ...
    @property
    def edits_text(self) -> bool: ...


@frozen
class ToolRequest:
    """Tool call with its plan, to be judged by a policy.

    Paths are real. `sends` is the exact text that would leave for `hosts`; `quoted` means that it
    is a quotation from the person's words or from the untrusted source itself. `taint` is the
    current taint of the session. `read_only` means that no command could change the workspace.
    `outside_reason` is the model's reason to run outside of the existing sandbox, or None to run
    inside; `start_folder` is where relative paths start if not in the workspace. `network` are
    additional hosts beyond those of the settings. `sandbox_scope` describes the private parts of
    the conversation's sandbox. `recipient` is the MCP server that receives what leaves,
    `is_recipient_trusted` means that the owner trusts it with private data. `traits` are None for
    an unknown tool. `executables` are created files that may be run as programs; `foreign` means
    that untrusted people may influence the workspace. `deletion` is the known deletion. Changes in
    the `writable_folders`, outside of the workspace, count as changes of the workspace.
    """

    tool: str
    effect: Effect
    arguments: Mapping[str, Any]
    workspace: Path
    reads: tuple[Path, ...] = ()
    changes: tuple[Path, ...] = ()
    creates: tuple[Path, ...] = ()
    command: str | None = None
    folder: Path | None = None
    start_folder: Path | None = None
    hosts: tuple[str, ...] = ()
    sends: str | None = None
    quoted: bool = False
    read_only: bool = False
    outside_reason: str | None = None
    network: tuple[str, ...] = ()
    sandbox_scope: SandboxScope = NO_SANDBOX
    recipient: Recipient | None = None
    is_recipient_trusted: bool = False
    taint: frozenset[Taint] = frozenset()
    traits: PolicyTraits | None = None
    executables: tuple[Path, ...] = ()
    foreign: bool = False
    deletion: Deletion | None = None
    writable_folders: tuple[Path, ...] = ()

    @property
    def kind(self) -> ToolKind:
        return "other" if self.traits is None else self.traits.kind

    @property
    def purpose(self) -> ToolPurpose | None:
        return None if self.traits is None else self.traits.purpose

    @property
    def governed_by(self) -> str | None:
        return None if self.traits is None else self.traits.governed_by

    @property
    def only_adds(self) -> bool:
        return self.traits is not None and self.traits.only_adds


@frozen
class Decision:
    """A verdict with its reason and rule.

    `taint_objects`: the taint of the session is another reason to ask. `remedy` names the setting
    with which such a call needs no approval.
    """

    verdict: Verdict
    reason: str
    rule: str
    taint_objects: bool = False
    remedy: str = ""


# Rule for text that would leave a conversation with private data.
TAINT_WAY_OUT = "taint-way-out"
# Rule for calls that need a folder outside the workspace.
ASK_FOLDER = "ask-folder"
# Rules that need a person's approval in every mode, and that `-y` does not answer.
ASKED_IN_EVERY_MODE = frozenset(
    {
        "ask-delete-final",
        "ask-unclear",
        "ask-outside-sandbox",
        "ask-network",
        ASK_FOLDER,
        "role-escalation",
        "hook-ask",
        "ask-mcp",
        "ask-mcp-changed",
    }
    | {"taint-memory", "taint-schedule", TAINT_WAY_OUT}
)
# Rule for questions that MCP servers ask during calls.
SERVER_QUESTION = "mcp-question"
# Rules that need an answer each time; earlier answers do not count.
NEVER_REMEMBERED = frozenset(
    {"ask-delete-final", "ask-outside-sandbox", "role-escalation", "hook-ask", SERVER_QUESTION}
)
# Rules whose answers cover any arguments: a command without other reasons to ask.
ALLOWED_BY_PREFIX = frozenset({"ask-exec"})

_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


def tightest_of(decisions: Sequence[Decision]) -> Decision:
    """Return the strictest decision.

    Among decisions to ask, one whose answer is never remembered wins; ties go to the first.
    """
    return max(decisions, key=_strictness)


def _strictness(decision: Decision) -> tuple[int, bool]:
    asks_each_time = decision.verdict == "ask" and decision.rule in NEVER_REMEMBERED
    return _STRICTNESS[decision.verdict], asks_each_time


def is_server_tool(tool: str, pattern: str) -> bool:
    """Return whether a pattern covers a tool of an MCP server: `mcp__SERVER`, `mcp__SERVER__*`."""
    if not (tool.startswith(SERVER_TOOLS) and pattern.startswith(SERVER_TOOLS)):
        return False
    return fnmatchcase(tool, pattern) or tool.startswith(f"{pattern}__")


def is_named(tool: str, names: Collection[str]) -> bool:
    """Return whether a list of names, which may include patterns for MCP tools, covers a tool."""
    return tool in names or any(is_server_tool(tool, name) for name in names)


class Policy(Protocol):
    """Judge of each call before it runs."""

    def decide(self, request: ToolRequest) -> Decision: ...


@runtime_checkable
class LimitsHosts(Protocol):
    """Optional capability of a policy: the hosts that a tool may reach if its arguments do not say;
    None sets no limit.
    """

    def hosts(self, tool: str, governed_by: str | None = None) -> tuple[str, ...] | None: ...


@runtime_checkable
class LimitsPaths(Protocol):
    """Optional capability of a policy: the files that a searching tool may show.

    A file must match each of the scopes, which are globs relative to the workspace.
    """

    def paths(self, tool: str, governed_by: str | None = None) -> tuple[tuple[str, ...], ...]: ...


@runtime_checkable
class LimitsWriting(Protocol):
    """Optional capability of a policy: whether commands of a tool may change files."""

    def may_write(self, tool: str, governed_by: str | None = None) -> bool: ...


@frozen
class AnswerOption:
    """Possible answer, with its subject if it is remembered."""

    answer: Answer
    scope: Scope = "call"


def options_for(request: ApprovalRequest) -> tuple[AnswerOption, ...]:
    """Return the possible answers, ending with the refusal.

    A permanent answer for exactly this call is offered only if it binds all files that the call
    runs as programs.
    """
    lasting: list[AnswerOption] = []
    if request.rule in NEVER_REMEMBERED:
        pass
    elif request.network:
        lasting = [AnswerOption("session", "network"), AnswerOption("always", "network")]
    elif request.rule == TAINT_WAY_OUT and request.recipient is not None:
        lasting = [AnswerOption("session", "recipient"), AnswerOption("always", "recipient")]
    elif request.folder_access is not None:
        lasting = [AnswerOption("session", "folder"), AnswerOption("always", "folder")]
    else:
        if request.unbound is None:
            lasting = [AnswerOption("session"), AnswerOption("always")]
        if request.prefixes:
            lasting.append(AnswerOption("always", "prefix"))
    return (AnswerOption("once"), *lasting, AnswerOption("deny"))


@frozen
class Answered:
    """An answer with its entry for the audit log, such as "asked, and chat:7 allowed it once".

    `words` is the message to the model from the person who denied the call. With the `scope`
    "network", the answer covers the hosts but not the command.
    """

    answer: Answer
    account: str = "asked"
    words: str = ""
    scope: Scope = "call"


class NobodyToAsk(KoreError):
    """Error: no person can be asked, and no earlier answer applies."""


class AnswerPending(Exception):
    """Signal that there is no answer yet: the turn ends and is resumed from its journal later."""


@runtime_checkable
class Approver(Protocol):
    """Person, or program that answers on their behalf.

    A `KoreError` counts as a refusal. An approver that knows who answered returns `Answered`. The
    journal of the turn may raise `AnswerPending` instead of waiting.
    """

    async def ask(self, request: ApprovalRequest) -> Answer | Answered: ...


@runtime_checkable
class DefersAnswers(Protocol):
    """Optional capability: an approver that never waits for a person.

    If `defers_answers`, it returns an earlier answer, raises `AnswerPending` after asking a person,
    or another error if nobody can be asked.
    """

    @property
    def defers_answers(self) -> bool: ...


# An approver as a function; a synchronous one runs in a thread, so that it may wait for a person.
Ask = Callable[[ApprovalRequest], Answer | Answered | Awaitable[Answer | Answered]]


@frozen
class Callback:
    """`Approver` based on a function."""

    function: Ask

    async def ask(self, request: ApprovalRequest) -> Answer | Answered:
        answer: Answer | Answered | Awaitable[Answer | Answered]
        is_async = inspect.iscoroutinefunction(self.function)
        if is_async:
            answer = self.function(request)
        else:
            answer = await asyncio.to_thread(self.function, request)
        return answer if isinstance(answer, str | Answered) else await answer


Trust = Literal["local", "remote"]

BLOCKED_COMMANDS = ("rm", "sudo", "shutdown", "format", "del")
# Blocked words that a sandbox confines to the workspace; deletions that undo cannot revert need
# approval there in every mode.
CONFINABLE_COMMANDS = frozenset({"rm", "del"})

PermissionMode = Literal["plan", "ask", "accept-edits", "auto"]

# From strictest to most permissive.
MODES: tuple[PermissionMode, ...] = ("plan", "ask", "accept-edits", "auto")


def is_mode(text: object) -> TypeGuard[PermissionMode]:
    return text in MODES


def tightest(*modes: PermissionMode) -> PermissionMode:
    return min(modes, key=MODES.index)


# Kinds of tools that change files.
CHANGING_KINDS: frozenset[ToolKind] = frozenset({"edit", "delete", "move"})


class KnownTools:
    """Tools by name, with their traits and aliases."""

    def __init__(self, traits: Mapping[str, PolicyTraits]) -> None:
        self._traits = traits
        aliases = {
            alias: name for name, tool_traits in traits.items() for alias in tool_traits.aliases
        }
        self._names = {**aliases, **{folded(name): name for name in traits}}

    @property
    def names(self) -> Collection[str]:
        return self._traits.keys()

    def canonical(self, name: str) -> str | None:
        """Return the tool with this name or alias, or None.

        MCP servers come and go, so every well-formed name of their tools is accepted.
        """
        if name.startswith(SERVER_TOOLS):
            return name
        return name if name in self._traits else self._names.get(folded(name))

    def kinds(self, names: Iterable[str]) -> Mapping[str, ToolKind]:
        """Return the known kinds of these tools."""
        kinds = {name: self._traits[name].kind for name in names if name in self._traits}
        return {name: kind for name, kind in kinds.items() if kind != "other"}

    def is_limited_by(self, name: str, scope: PolicyScope) -> bool:
        """Return whether a scope limits a tool; every scope limits an unknown tool."""
        traits = self._traits.get(name)
        return traits is None or scope in traits.scopes

    def with_companions(self, names: Collection[str]) -> frozenset[str]:
        """Return the names with their companions, provided that one of `names` edits text.

        An agent without editing tools stays read-only.
        """
        named_tools = {name: self._traits[name] for name in names if name in self._traits}
        if not any(traits.edits_text for traits in named_tools.values()):
            return frozenset(names)
        tools = self._traits.items()
        companions = {name for name, traits in tools if traits.companion_of in named_tools}
        return frozenset({*names, *companions})
