"""The port to a tool, and what a tool is told about its call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from agent.types import Effect, JsonSchema, ToolCall, ToolResult


@dataclass(frozen=True, slots=True)
class CallContext:
    """The surroundings of one call.

    `workspace` is where relative paths start. `memory` is the long-term memory file of whoever
    is speaking. `output` reports live output (text, stream) to whoever watches.
    """

    call: ToolCall
    session: str
    workspace: Path
    memory: Path
    output: Callable[[str, Literal["stdout", "stderr"]], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a call is about to do, told before it does it; the policy and the person judge this.

    `changes` lists files that exist and would be changed, `creates` those that would be new;
    `command` is the exact shell command; `diff` has 3 lines of context.
    """

    changes: tuple[Path, ...] = ()
    creates: tuple[Path, ...] = ()
    command: str | None = None
    diff: str | None = None


class Tool(Protocol):
    """Something the model can do.

    `effect` decides what happens after a crash: `read` and `idempotent` calls run again, an
    `unsafe` one that had started is reported as "outcome unknown". `run` raises `ToolError` for
    failures that the model should read; anything else is a bug.
    """

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def parameters(self) -> JsonSchema: ...
    @property
    def effect(self) -> Effect: ...

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult: ...


@runtime_checkable
class Plans(Protocol):
    """Optional ability of a tool: say what a call will do. Raises `ToolError` when it cannot."""

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> Plan: ...
