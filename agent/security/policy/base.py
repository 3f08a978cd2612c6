"""One decision per tool call: allow, ask or deny, with a reason and the rule that said so."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, Protocol, TypeGuard, runtime_checkable

from agent.approvals import Answer, ApprovalRequest, Scope
from agent.records import frozen
from agent.types import Effect, PolicyScope, Taint, ToolKind, ToolPurpose

Verdict = Literal["allow", "ask", "deny"]
# What the names of all tools of MCP servers begin with.
SERVER_TOOLS = "mcp__"


# Why undo would not bring a file back: the history of a repository, files that git ignores, files
# that are too large, beyond the limits of the folder, not readable, closed to tools, outside of the
# folder, or no record is kept at all.
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
    """Names of what a call deletes, as a person knows them.

    `restorable` can be undone; `lost` cannot, by cause. With `is_chosen_later` the program chooses
    what it deletes when it runs, and `possible` could not be undone. `unseen` lies outside of the
    folder, where a confined command sees nothing of it.
    """

    restorable: tuple[str, ...] = ()
    lost: tuple[tuple[LossCause, tuple[str, ...]], ...] = ()
    possible: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    is_chosen_later: bool = False

    @property
    def is_final(self) -> bool:
        """Whether undo would not bring everything back."""
        return bool(self.lost or self.possible)


# Tools whose rules in a role stand for reading files, writing files and running commands.
READING_TOOL = "read_file"
WRITING_TOOL = "write_file"
COMMAND_TOOL = "exec"


class PolicyTraits(Protocol):
    """The traits of a tool that matter to policies and to lists of tools."""

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
    """A tool call as the policy judges it: what it is, and what it said it is about to do.

    Paths are real. `sends` is the exact text that would leave for `hosts`; `quoted` says that it
    stands like this in what the person wrote or in the untrusted source itself. `taint` is what
    the session has taken in so far. `read_only` says that a command would run with the workspace
    read-only to it, so that it cannot change it, whatever it is; `outside_reason` why the model
    wants it to run outside of the sandbox that there is, None inside of it; `network` are the hosts
    that it would reach beyond those of the settings. `traits` are None for an unknown tool.
    `executables` are those of `creates` that may be run as programs; `foreign` says that strangers
    may steer what happens in the workspace. `deletion` is what it is known to delete.
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
    hosts: tuple[str, ...] = ()
    sends: str | None = None
    quoted: bool = False
    read_only: bool = False
    outside_reason: str | None = None
    network: tuple[str, ...] = ()
    taint: frozenset[Taint] = frozenset()
    traits: PolicyTraits | None = None
    executables: tuple[Path, ...] = ()
    foreign: bool = False
    deletion: Deletion | None = None

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
    """`taint_objects`: what the session has taken in is a reason to ask as well."""

    verdict: Verdict
    reason: str
    rule: str
    taint_objects: bool = False


# What a person must see whatever the mode, so that `-y` does not answer it.
ASKED_IN_EVERY_MODE = frozenset(
    {
        "ask-delete-final",
        "ask-unclear",
        "ask-outside-sandbox",
        "ask-network",
        "role-escalation",
        "hook-ask",
    }
    | {"taint-memory", "taint-schedule", "taint-way-out"}
)
# The rule of a question that an MCP server puts in the middle of a call.
SERVER_QUESTION = "mcp-question"
# What a person must see each time, so that no earlier answer counts.
NEVER_REMEMBERED = frozenset(
    {"ask-delete-final", "ask-outside-sandbox", "role-escalation", "hook-ask", SERVER_QUESTION}
)
# What an answer for any arguments may hold for: a command, and no other reason to ask.
ALLOWED_BY_PREFIX = frozenset({"ask-exec"})

_ORDER = {"allow": 0, "ask": 1, "deny": 2}


def tightest_of(decisions: Sequence[Decision]) -> Decision:
    """The strictest of several decisions: of those that ask, one whose answer never lasts; of
    equals the first."""
    return max(decisions, key=_strictness)


def _strictness(decision: Decision) -> tuple[int, bool]:
    asks_each_time = decision.verdict == "ask" and decision.rule in NEVER_REMEMBERED
    return _ORDER[decision.verdict], asks_each_time


def is_server_tool(tool: str, pattern: str) -> bool:
    """Whether a pattern names a tool of an MCP server: `mcp__SERVER`, `mcp__SERVER__*`."""
    if not (tool.startswith(SERVER_TOOLS) and pattern.startswith(SERVER_TOOLS)):
        return False
    return fnmatchcase(tool, pattern) or tool.startswith(f"{pattern}__")


def is_named(tool: str, names: Collection[str]) -> bool:
    """Return whether names of tools, patterns of MCP tools among them, include a tool."""
    return tool in names or any(is_server_tool(tool, name) for name in names)


class Policy(Protocol):
    """The rules: judges each call before it runs."""

    def decide(self, request: ToolRequest) -> Decision: ...


@runtime_checkable
class LimitsHosts(Protocol):
    """Optional ability of a policy: say which hosts a tool may reach, where that is not told by
    its arguments; None sets no limit."""

    def hosts(self, tool: str, governed_by: str | None = None) -> tuple[str, ...] | None: ...


@runtime_checkable
class LimitsPaths(Protocol):
    """Optional ability of a policy: say which files a tool may show that goes through folders.

    A file must fit each of the scopes, which are globs from the workspace on.
    """

    def paths(self, tool: str, governed_by: str | None = None) -> tuple[tuple[str, ...], ...]: ...


@runtime_checkable
class LimitsWriting(Protocol):
    """Optional ability of a policy: say whether commands of a tool may change files."""

    def may_write(self, tool: str, governed_by: str | None = None) -> bool: ...


@frozen
class AnswerOption:
    """An answer that a question takes, and what a lasting one is about."""

    answer: Answer
    scope: Scope = "call"


def options_for(request: ApprovalRequest) -> tuple[AnswerOption, ...]:
    """Return the answers that a question takes, the refusal last.

    A lasting answer about exactly this call is offered only where it binds all files that the call
    runs as programs.
    """
    lasting: list[AnswerOption] = []
    if request.rule in NEVER_REMEMBERED:
        pass
    elif request.network:
        lasting = [AnswerOption("session", "network"), AnswerOption("always", "network")]
    else:
        if request.unbound is None:
            lasting = [AnswerOption("session"), AnswerOption("always")]
        if request.prefix is not None:
            lasting.append(AnswerOption("always", "prefix"))
    return (AnswerOption("once"), *lasting, AnswerOption("deny"))


@frozen
class Answered:
    """An answer, and what the audit log says of it, as "asked, and chat:7 allowed it once".

    `words` is what the person who denied it wrote to the model. With the `scope` network the hosts
    may be reached, and nothing is said of the command.
    """

    answer: Answer
    account: str = "asked"
    words: str = ""
    scope: Scope = "call"


class AnswerPending(Exception):
    """There is no answer yet: the turn ends where it is, and goes on from its journal later."""


@runtime_checkable
class Approver(Protocol):
    """The person, or a program that answers for them. A `KoreError` counts as a no.

    Who keeps account of who answered says so by an `Answered`.

    The turn's journal may raise `AnswerPending` instead of waiting.
    """

    async def ask(self, request: ApprovalRequest) -> Answer | Answered: ...


# The same as a function; a plain one is run in a thread, so that it may wait for a person.
Ask = Callable[[ApprovalRequest], Answer | Answered | Awaitable[Answer | Answered]]


@frozen
class Callback:
    """An `Approver` made of a function."""

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
# Blocked words that a sandbox keeps in the workspace: what undo does not bring back there is asked
# about in every mode.
CONFINABLE_COMMANDS = frozenset({"rm", "del"})

PermissionMode = Literal["plan", "ask", "accept-edits", "auto"]

# The tightest first.
MODES: tuple[PermissionMode, ...] = ("plan", "ask", "accept-edits", "auto")


def is_mode(text: object) -> TypeGuard[PermissionMode]:
    return text in MODES


def tightest(*modes: PermissionMode) -> PermissionMode:
    return min(modes, key=MODES.index)
