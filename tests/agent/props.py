"""Tools made of functions, and agents with scripted models, for tests of turns."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from agent import events
from agent.agent import Agent
from agent.errors import Rejected
from agent.prompts import load_prompt
from agent.providers.base import ModelRequest
from agent.providers.scripted import ScriptedProvider, Step
from agent.run.history import History
from agent.security.audit import AuditEntry
from agent.security.policy.engine import DefaultPolicy
from agent.security.taint.taint import NOTHING
from agent.settings import AgentSettings
from agent.tools.base import CallContext, Tool, ToolEnvironment
from agent.tools.runner import Permissions
from agent.turn.journal import CancelToken, NullJournal, TurnJournal
from agent.turn.request import TurnRequest
from agent.types import (
    Effect,
    JsonSchema,
    Message,
    Result,
    Taint,
    ToolCall,
    ToolResult,
    assistant,
    user,
)

Body = Callable[[Mapping[str, Any], CallContext], Awaitable[ToolResult]]
FREE = Permissions(DefaultPolicy("auto"))
ANYTHING: JsonSchema = {"type": "object"}


class Handmade:
    """A tool implemented by a function."""

    description = "For tests."
    brings: frozenset[Taint] = NOTHING

    def __init__(
        self, name: str, body: Body, effect: Effect = "read", parameters: JsonSchema = ANYTHING
    ) -> None:
        self.name = name
        self.parameters = parameters
        self.effect = effect
        self._body = body

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        return await self._body(args, call)


class AuditList:
    """An audit log in memory."""

    def __init__(self) -> None:
        self.entries: list[AuditEntry] = []

    async def record(self, entry: AuditEntry) -> None:
        self.entries.append(entry)


class Hanging:
    """A tool that never returns and records its start and its cancellation."""

    description = "For tests."
    brings: frozenset[Taint] = NOTHING
    parameters = ANYTHING

    def __init__(self, name: str = "hang", effect: Effect = "read") -> None:
        self.name = name
        self.effect = effect
        self.started = asyncio.Event()
        self.stopped = False

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped = True
        return ToolResult("never")


def is_summary_request(request: ModelRequest) -> bool:
    """Return whether the request asks for a summary.

    The question is either the last message of the conversation or comes with a transcript.
    """
    words = request.messages[-1].text
    is_behind = words.startswith(load_prompt("summarise_here"))
    return is_behind or request.system == load_prompt("summarise")


class WithoutSummaries(ScriptedProvider):
    """A scripted provider that rejects requests for summaries."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[events.ModelEvent]:
        if is_summary_request(request):
            raise Rejected("no summaries here")
        async for event in super().stream(request):
            yield event


def answers(name: str, text: str = "fine", effect: Effect = "read") -> Handmade:
    """Return a tool that always gives the same result."""

    async def body(args: Mapping[str, Any], call: CallContext) -> ToolResult:
        return ToolResult(text)

    return Handmade(name, body, effect)


def call(name: str, call_id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(call_id, name, arguments, json.dumps(arguments))


def call_context(name: str, folder: Path) -> CallContext:
    """Return the context of a single call outside of a turn."""
    environment = ToolEnvironment("s", folder, folder / "MEMORY.md", owner=True)
    return CallContext(call(name), environment, lambda text, stream: None)


def calls(*planned: ToolCall, text: str = "") -> Message:
    return assistant(text, planned)


def scripted(
    replies: Iterable[Step],
    workspace: Path,
    *tools: Tool,
    history: History | None = None,
    permissions: Permissions = FREE,
    settings: AgentSettings | None = None,
    summaries: bool = False,
) -> tuple[Agent, ScriptedProvider]:
    """Return an agent and its scripted model.

    With `summaries` the script also answers requests for summaries; otherwise these fail.
    """
    model = ScriptedProvider(replies) if summaries else WithoutSummaries(replies)
    return (
        Agent(
            model,
            tools=tools,
            history=history,
            approve=permissions,
            workspace=workspace,
            settings=settings,
        ),
        model,
    )


def task(
    agent: Agent,
    messages: Sequence[Message] = (user("go"),),
    *,
    known: Mapping[str, ToolResult] | None = None,
    progress: TurnJournal | None = None,
    stop: CancelToken | None = None,
    max_iterations: int | None = None,
) -> TurnRequest:
    folder = agent.workspace.folder
    return TurnRequest(
        ToolEnvironment(
            "s1",
            folder,
            agent.workspace.owner_memory,
            owner=True,
            places=agent.workspace.origin,
        ),
        messages,
        FREE,
        known=known or {},
        progress=progress or NullJournal(),
        stop=stop or CancelToken(),
        max_iterations=max_iterations,
    )


async def run_turn(agent: Agent, request: TurnRequest) -> tuple[list[events.Event], Result]:
    """Return all events of the turn and its result."""
    async with aclosing(agent.turn(request)) as stream:
        seen = [event async for event in stream]
    assert isinstance(seen[-1], events.Done)
    return seen, seen[-1].result


def results(messages: Iterable[Message]) -> list[str]:
    """Return the texts of the tool messages, in order."""
    return [message.text for message in messages if message.role == "tool"]


@asynccontextmanager
async def expect_no_task_left() -> AsyncIterator[None]:
    """Fail if a task started inside is still running at the end."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = {item for item in asyncio.all_tasks() - before if not item.done()}
    assert not left
