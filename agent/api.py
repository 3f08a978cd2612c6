"""`kore.run` and `kore.stream`: one call for an agent that lives as long as one turn."""

import os
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from agent.agent import Agent
from agent.events import Event
from agent.history import History, JsonlHistory
from agent.per_loop import run_blocking
from agent.providers.base import Provider
from agent.providers.pool import ModelPool
from agent.security.policy.base import Approver, Ask, PermissionMode
from agent.settings import AgentSettings
from agent.subagents.definition import SubagentDefinition
from agent.tools.base import Tool
from agent.tools.runner import Permissions
from agent.types import Message, Result


class AgentOptions(TypedDict, total=False):
    """What `run` and `stream` hand on to `Agent`."""

    instructions: str
    tools: Sequence[Tool]
    builtin_tools: Collection[str]
    history: History
    approve: Ask | Approver | Permissions
    mode: PermissionMode
    workspace: str | Path
    settings: AgentSettings
    subagents: Sequence[SubagentDefinition]
    agent: str | SubagentDefinition


async def run(
    prompt: str | Message,
    *,
    model: str | Provider | ModelPool | None = None,
    session: str | None = None,
    max_iterations: int | None = None,
    thinking: bool | None = None,
    output_type: Any = None,
    **options: Unpack[AgentOptions],
) -> Result:
    """One turn, to its end. Raises the `KoreError` that ended it, if one did.

    `prompt` is text, or a user `Message` with pictures.
    With `session` the turn goes on with that conversation; without `history` it is kept in
    `~/.kore/chats` (`KORE_HOME` moves it). `max_iterations` bounds the model calls, `thinking` asks
    for thoughts or for none, `output_type` for an answer of that type in `Result.output`. The other
    options are those of `Agent`.
    """
    limits = {"max_iterations": max_iterations, "thinking": thinking}
    async with aclosing(_agent(model, session, limits, options)) as agent:
        return await agent.run(prompt, session=session, output_type=output_type)


def run_sync(
    prompt: str | Message,
    *,
    model: str | Provider | ModelPool | None = None,
    session: str | None = None,
    max_iterations: int | None = None,
    thinking: bool | None = None,
    output_type: Any = None,
    **options: Unpack[AgentOptions],
) -> Result:
    """`run`, for a program without an event loop. Raises `RuntimeError` within one."""
    return run_blocking(
        lambda: run(
            prompt,
            model=model,
            session=session,
            max_iterations=max_iterations,
            thinking=thinking,
            output_type=output_type,
            **options,
        )
    )


async def stream(
    prompt: str | Message,
    *,
    model: str | Provider | ModelPool | None = None,
    session: str | None = None,
    max_iterations: int | None = None,
    thinking: bool | None = None,
    **options: Unpack[AgentOptions],
) -> AsyncGenerator[Event]:
    """`run`, as it happens: the events of the turn, `Done` last. Closing it stops the turn."""
    limits = {"max_iterations": max_iterations, "thinking": thinking}
    async with (
        aclosing(_agent(model, session, limits, options)) as agent,
        aclosing(agent.stream(prompt, session=session)) as events,
    ):
        async for event in events:
            yield event


def _agent(
    model: str | Provider | ModelPool | None,
    session: str | None,
    limits: Mapping[str, Any],
    options: AgentOptions,
) -> Agent:
    if session is not None and "history" not in options:
        home = Path(os.environ.get("KORE_HOME") or "~/.kore").expanduser()
        options["history"] = JsonlHistory(home / "chats")
    set_limits = {name: value for name, value in limits.items() if value is not None}
    options["settings"] = replace(options.get("settings") or AgentSettings(), **set_limits)
    return Agent(model, **options)
