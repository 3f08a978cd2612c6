"""One decision per tool call: allow, ask or deny, with a reason and the rule that said so."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from agent.prompts import fill, load
from agent.security.commands import blocked_word
from agent.types import Effect

Verdict = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool call as the policy judges it: what it is, and what it said it is about to do."""

    tool: str
    effect: Effect
    arguments: Mapping[str, Any]
    workspace: Path
    changes: tuple[Path, ...] = ()
    creates: tuple[Path, ...] = ()
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    reason: str
    rule: str


class Policy(Protocol):
    """The rules: judges each call before it runs."""

    def decide(self, request: ToolRequest) -> Decision: ...


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A question to a person. `diff` or `command` shows exactly what would happen."""

    tool: str
    arguments: Mapping[str, Any]
    reason: str
    command: str | None = None
    diff: str | None = None


Answer = Literal["once", "session", "deny"]


class Approver(Protocol):
    """The person, or whoever answers for one. A `KoreError` counts as a no."""

    async def ask(self, request: ApprovalRequest) -> Answer: ...


Trust = Literal["local", "remote"]

BLOCKED_COMMANDS = ("rm", "sudo", "shutdown", "format", "del")
PROMPT_FILES = frozenset({"identity.md", "agent.md", "soul.md", "user.md"})
MEMORY_FOLDER = "memory"


class DefaultPolicy:
    """The first rule of Kore: what stays inside the workspace is allowed, the rest asks or is off.

    `local` is the owner's terminal: commands and changes of existing files ask, unless `auto`.
    `remote` is everybody else: commands and changes of existing files are refused, new files and
    appending are fine. Files that the system prompt is made of always count as changed, because
    whoever writes them speaks to every later turn. Blocked commands are refused in every mode.

    The command list is a seat belt and no security boundary: many commands do the same harm
    under other names. The boundary is that strangers cannot run commands at all.
    """

    def __init__(
        self,
        trust: Trust,
        auto: bool = False,
        blocked_commands: tuple[str, ...] = BLOCKED_COMMANDS,
    ) -> None:
        self._trust = trust
        self._auto = auto
        self._blocked = blocked_commands

    def decide(self, request: ToolRequest) -> Decision:
        """The verdict on one call; pure, and fast enough to be asked before each."""
        if request.command is not None and (word := blocked_word(request.command, self._blocked)):
            return Decision("deny", fill("policy/blocked_command", word=word), "blocked-command")
        rule = self._rule(request)
        if rule is None:
            return Decision("allow", "within the workspace", "workspace")
        if self._trust == "remote":
            return Decision("deny", load(f"policy/remote_{rule}"), f"remote-{rule}")
        if self._auto:
            return Decision("allow", "everything is allowed in this session", "auto")
        return Decision("ask", load(f"policy/ask_{rule}"), f"ask-{rule}")

    def _rule(
        self, request: ToolRequest
    ) -> Literal["exec", "prompt", "change", "unplanned"] | None:
        if request.command is not None:
            return "exec"
        if any(_is_prompt(path, request.workspace) for path in request.changes + request.creates):
            return "prompt"
        if request.changes:
            return None if request.tool == "append_file" else "change"
        if request.effect == "unsafe" and not request.creates:
            return "unplanned"
        return None


def _is_prompt(path: Path, workspace: Path) -> bool:
    root = workspace.resolve()
    if not path.is_relative_to(root):
        return False
    parts = [part.casefold() for part in path.relative_to(root).parts]
    return bool(parts) and (
        parts[0] == MEMORY_FOLDER or (len(parts) == 1 and parts[0] in PROMPT_FILES)
    )
