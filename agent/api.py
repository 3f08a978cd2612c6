"""`kore.run` and `kore.stream`: run an agent for a single turn."""

import os
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack, cast, overload

from agent.agent import Agent
from agent.errors import ConfigError
from agent.events import Event
from agent.i18n import t
from agent.per_loop import run_blocking
from agent.providers.base import Provider
from agent.providers.model_settings import ModelSettings
from agent.providers.pool import ModelPool
from agent.run.content import Prompt
from agent.run.history import History, JsonlHistory
from agent.run.options import ParallelOptions, RunOptions
from agent.run.parallel import ParallelResults
from agent.security.policy.base import Approver, Ask, PermissionMode
from agent.settings import AgentSettings
from agent.subagents.definition import SubagentDefinition
from agent.subagents.handoff import Handoff
from agent.tools.base import Tool
from agent.tools.runner import Permissions
from agent.turn.guardrails import InputGuardrail, OutputGuardrail
from agent.turn.hooks import Hooks
from agent.turn.tracing import Tracing
from agent.types import Message, OutputT, ReasoningEffort, Result


class AgentOptions(TypedDict, total=False):
    """Options that `run` and `stream` pass on to `Agent`."""

    instructions: str
    tools: Sequence[Tool | Callable[..., Any]]
    builtin_tools: Collection[str]
    history: History
    approve: Ask | Approver | Permissions
    mode: PermissionMode
    full_access: bool
    workspace: str | Path
    add_dirs: Sequence[str | Path]
    settings: AgentSettings
    subagents: Sequence[SubagentDefinition]
    agent: str | SubagentDefinition
    name: str
    handoffs: Sequence[Agent[Any] | Handoff[Any]]
    hooks: Sequence[Hooks[Any]]
    input_guardrails: Sequence[InputGuardrail]
    output_guardrails: Sequence[OutputGuardrail]
    tracing: Tracing


class CallOptions(AgentOptions, total=False):
    """Options of `run` and `stream` in addition to the prompt and the model."""

    session: str | None
    model_settings: ModelSettings | None
    tool_choice: str | None
    initial_messages: Sequence[Message]
    max_iterations: int | None
    effort: ReasoningEffort | None


@overload
async def run(
    prompt: Prompt,
    *,
    model: str | Provider | ModelPool | None = None,
    output_type: None = None,
    deps: Any = None,
    **options: Unpack[CallOptions],
) -> Result[None]: ...


@overload
async def run(
    prompt: Prompt,
    *,
    model: str | Provider | ModelPool | None = None,
    output_type: type[OutputT],
    deps: Any = None,
    **options: Unpack[CallOptions],
) -> Result[OutputT]: ...


@overload
async def run(
    prompt: Prompt,
    *,
    model: str | Provider | ModelPool | None = None,
    output_type: Any,
    deps: Any = None,
    **options: Unpack[CallOptions],
) -> Result[Any]: ...


async def run(
    prompt: Prompt,
    *,
    model: str | Provider | ModelPool | None = None,
    output_type: Any = None,
    deps: Any = None,
    **options: Unpack[CallOptions],
) -> Result[Any]:
    """Run one turn to its end. Raises the `KoreError` that ended it, if any.

    `prompt` is text, a list of texts and pictures (`Path`, `bytes`, `Image`, `ImageUrl`), or a user
    `Message`. With `session`, the turn continues that conversation; without `history` it is stored
    in `~/.kore/chats` (`KORE_HOME` moves it). `max_iterations` limits the model calls, `thinking`
    requests thoughts or none, `output_type` an answer of that type in `Result.output`. The other
    options belong to `Agent` and to its `run`.
    """
    agent, turn = _prepare(model, options)
    async with aclosing(agent):
        result: Result[Any] = await agent.run(prompt, output_type=output_type, deps=deps, **turn)
        return result


@overload
def run_sync(
    prompt: Prompt,
    *,
    model: str | Provider | ModelPool | None = None,
    output_type: None = None,
    deps: Any = None,
    **options: Unpack[CallOptions],
) -> Result[None]: ...


@overload
def run_sync(
    prompt: Prompt,
    *,
    model: str | Provider | ModelPool | None = None,
    output_type: type[OutputT],
    deps: Any = None,
    **options: Unpack[CallOptions],
) -> Result[OutputT]: ...


@overload
def run_sync(
    prompt: Prompt,
    *,
    model: str | Provider | ModelPool | None = None,
    output_type: Any,
    deps: Any = None,
    **options: Unpack[CallOptions],
) -> Result[Any]: ...


def run_sync(
    prompt: Prompt,
    *,
    model: str | Provider | ModelPool | None = None,
    output_type: Any = None,
    deps: Any = None,
    **options: Unpack[CallOptions],
) -> Result[Any]:
    """Run a turn without an event loop. Raises `RuntimeError` within a running loop."""

    async def work() -> Result[Any]:
        result: Result[Any] = await run(
            prompt, model=model, output_type=output_type, deps=deps, **options
        )
        return result

    return run_blocking(work)


@overload
async def parallel(
    prompts: Iterable[Prompt],
    *,
    limit: int = 4,
    model: str | Provider | ModelPool | None = None,
    output_type: None = None,
    deps: Any = None,
    **options: Unpack[CallOptions],
) -> ParallelResults[None]: ...


@overload
async def parallel(
    prompts: Iterable[Prompt],
    *,
    limit: int = 4,
    model: str | Provider | ModelPool | None = None,
    output_type: type[OutputT],
    deps: Any = None,
    **options: Unpack[CallOptions],
) -> ParallelResults[OutputT]: ...


@overload
async def parallel(
    prompts: Iterable[Prompt],
    *,
    limit: int = 4,
    model: str | Provider | ModelPool | None = None,
    output_type: Any,
    deps: Any = None,
    **options: Unpack[CallOptions],
) -> ParallelResults[Any]: ...


async def parallel(
    prompts: Iterable[Prompt],
    *,
    limit: int = 4,
    model: str | Provider | ModelPool | None = None,
    output_type: Any = None,
    deps: Any = None,
    **options: Unpack[CallOptions],
) -> ParallelResults[Any]:
    """Run each prompt in its own session, up to `limit` at a time.

    A `KoreError` of a run is stored in `ParallelResults.errors` and does not stop other runs.
    """
    if options.pop("session", None) is not None:
        raise ConfigError(t("parallel: session= is not allowed; each run has its own"))
    agent, turn = _prepare(model, options)
    each = cast(ParallelOptions, turn)
    async with aclosing(agent):
        results: ParallelResults[Any] = await agent.parallel(
            prompts, limit=limit, output_type=output_type, deps=deps, **each
        )
        return results


async def stream(
    prompt: Prompt,
    *,
    model: str | Provider | ModelPool | None = None,
    deps: Any = None,
    **options: Unpack[CallOptions],
) -> AsyncGenerator[Event]:
    """Yield the events of one turn, ending with `Done`. Closing the iterator stops the turn."""
    agent, turn = _prepare(model, options)
    async with aclosing(agent), aclosing(agent.stream(prompt, deps=deps, **turn)) as events:
        async for event in events:
            yield event


def _prepare(
    model: str | Provider | ModelPool | None, options: CallOptions
) -> tuple[Agent[Any], RunOptions]:
    """Return the agent of one turn, and the options of the turn."""
    values: dict[str, Any] = dict(options)
    turn = {name: values.pop(name) for name in RunOptions.__annotations__ if name in values}
    if turn.get("session") is not None and "history" not in values:
        home = Path(os.environ.get("KORE_HOME") or "~/.kore").expanduser()
        values["history"] = JsonlHistory(home / "chats")
    limits = {name: values.pop(name, None) for name in ("max_iterations", "effort")}
    set_limits = {name: value for name, value in limits.items() if value is not None}
    values["settings"] = replace(values.get("settings") or AgentSettings(), **set_limits)
    return Agent(model, **values), cast(RunOptions, turn)
