"""Configuration of a sub-agent's turn: prompt, tools, model and permissions."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agent import events
from agent.errors import ConfigError, ToolError
from agent.prompts import load_prompt, render_prompt
from agent.providers.pool import ModelPool
from agent.security.policy.engine import DelegatedPolicy, NamedApprover
from agent.security.taint.taint import NOTHING, UNTRUSTED, TaintState
from agent.serialization import event_to_json
from agent.subagents.catalog import SubagentCatalog
from agent.subagents.definition import BUILT_IN, SubagentDefinition, family_of, model_of
from agent.tools.base import SubagentRequest
from agent.tools.registry import ToolRegistry
from agent.tools.runner import Permissions
from agent.turn.request import AgentServices, PersonaPrompt, TurnRequest
from agent.types import Result, Taint, ToolResult

RESULT_LIMIT_CHARS = 20_000
_ROSTER_CHARS = 700
_MAX_SUMMARY_CHARS = 70


def persona_for(
    definition: SubagentDefinition, toolbox: ToolRegistry, *, may_send: bool
) -> PersonaPrompt:
    """Return the prompt and the tools of a sub-agent, which sees only its own prompt.

    With `may_send` it may start other sub-agents.
    """

    def is_chosen(tool: str) -> bool:
        kind = toolbox.traits(tool).kind
        # No person answers its questions, because the caller may be another model.
        if kind == "ask" or (kind == "delegate" and not may_send):
            return False
        return definition.chooses(tool)

    return PersonaPrompt(_text(definition), toolbox.only(is_chosen, definition.tools or ()))


def as_subagent(
    request: TurnRequest,
    definition: SubagentDefinition,
    agent: AgentServices,
    *,
    number: int,
    depth: int,
) -> TurnRequest:
    """Return the request as the turn of a sub-agent, which no person prompts.

    The permissions of `request` are its caller's, and its environment, model and taint are the
    sub-agent's own. `depth` is the number of agents above it.
    """
    may_send = agent.settings.subagents.may_spawn(depth)
    who = f"sub-agent {definition.name} ({number})"
    exposure = request.exposure
    return replace(
        request,
        permissions=permissions_of(request.permissions, definition, who),
        character=persona_for(definition, agent.toolbox, may_send=may_send),
        is_prompted=False,
        max_iterations=_max_iterations(definition, request),
        exposure=TaintState(exposure.taint, from_person=False, budget=exposure.budget),
    )


def as_profile(
    task: TurnRequest, definition: SubagentDefinition, agent: AgentServices
) -> TurnRequest:
    """Return a person's turn as this agent, whose prompt follows the workspace's.

    A model that was chosen for the turn takes precedence over the agent's own.
    """
    model = task.model
    if model is None:
        model, note = model_for(agent.models, None, definition, None)
        if note:
            agent.models.tell(note)
    task.exposure.taint |= taint_of(definition)
    return replace(
        task,
        environment=replace(task.environment, agent=definition.name),
        permissions=permissions_of(task.permissions, definition, f"agent {definition.name}"),
        character=PersonaPrompt(
            _text(definition),
            agent.toolbox.only(definition.chooses, definition.tools or ()),
            alone=False,
        ),
        model=model,
        max_iterations=_max_iterations(definition, task),
    )


def permissions_of(
    permissions: Permissions, definition: SubagentDefinition, who: str
) -> Permissions:
    """Return the caller's permissions, limited to the definition's mode.

    `who` is shown to people and recorded.
    """
    policy = (
        DelegatedPolicy(permissions.policy, definition.mode)
        if definition.mode
        else permissions.policy
    )
    approver = permissions.approver and NamedApprover(permissions.approver, who)
    return replace(permissions, policy=policy, approver=approver, agent_id=who)


def taint_of(definition: SubagentDefinition) -> frozenset[Taint]:
    """Return the taint that follows from the origin of an agent."""
    return NOTHING if definition.trusted else UNTRUSTED


async def find(catalogue: SubagentCatalog, name: str, root: Path) -> SubagentDefinition:
    """Return the agent that a model asks for. Raises `ToolError` with the available names."""

    def read() -> SubagentDefinition:
        if (definition := catalogue.find(name, root)) is not None:
            return definition
        names = ", ".join(list(catalogue.load(root))[:60])
        raise ToolError(f"There is no agent {name[:80]!r}; available: {names}.")

    return await asyncio.to_thread(read)


def not_resumable(request: SubagentRequest) -> ToolError:
    """Return the error for a request that resumes no sub-agent of its session."""
    return ToolError(f"There is no sub-agent with the number {(request.resume or '')[:40]!r}.")


def requested_model(
    models: ModelPool,
    request: SubagentRequest,
    definition: SubagentDefinition,
    *,
    caller: str | None,
    earlier: str | None,
) -> tuple[str | None, str | None]:
    """Return the model of a new or resumed sub-agent, and a sentence as `model_for` does.

    A resumed sub-agent retains its `earlier` model unless the request names another.
    """
    if request.resume is not None and request.model is None:
        return earlier, None
    return model_for(models, request.model, definition, caller)


def model_for(
    models: ModelPool,
    requested: str | None,
    definition: SubagentDefinition | None,
    caller: str | None,
) -> tuple[str | None, str | None]:
    """Return the model of a sub-agent, and a sentence if it replaces the wanted model.

    None means the default model; `caller` is the caller's model.
    """
    name = model_of(requested) or (definition.model if definition else None)
    if name is None:
        return caller, None
    if name in ("default", "task", "reasoning", "quick"):
        return name, None
    try:
        models.check(name)
    except ConfigError as exc:
        if (family := family_of(name)) is not None:
            return family, None
        place = caller or models.default
        return caller, f"the model {name} cannot be used, {place} takes its place: {exc}"
    return name, None


def roster(agents: Mapping[str, SubagentDefinition]) -> str:
    """Return the trusted agents for the tool's description; built-in agents by name alone."""
    text = ", ".join(agent.name for agent in agents.values() if agent.source == BUILT_IN)
    for agent in agents.values():
        if agent.source == BUILT_IN or not agent.trusted:
            continue
        summary = " ".join(agent.description.split())[:_MAX_SUMMARY_CHARS]
        entry = f", {agent.name} ({summary})" if summary else f", {agent.name}"
        if len(text) + len(entry) > _ROSTER_CHARS:
            return f"{text}, …"
        text += entry
    return text


def shorten_result(text: str) -> str:
    """Return a result of limited length: its beginning and its end."""
    if len(text) <= RESULT_LIMIT_CHARS:
        return text
    half = RESULT_LIMIT_CHARS // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n… ({left_out:,} characters left out)\n{text[-half:]}"


def step_of(agent: str, number: int, title: str, event: events.Event) -> events.FromAgent | None:
    """Return an event of a sub-agent's turn for the screens of its caller, if it belongs there."""
    if isinstance(event, events.Done):
        event = events.Done(replace(event.result, messages=()))
    if not isinstance(event, events.SubagentStep):
        return None
    return events.FromAgent(agent, str(number), title, event_to_json(event))


def final_reply(result: Result) -> str:
    """Return the last reply of a sub-agent that contains text."""
    replies = [m.text.strip() for m in result.messages if m.role == "assistant"]
    text = next((reply for reply in reversed(replies) if reply), result.text.strip())
    return text or "It returned no text."


def tool_result(
    text: str, note: str | None, taint: frozenset[Taint], *, is_error: bool
) -> ToolResult:
    """Return the result of the call that started a sub-agent, with the note on its model."""
    return ToolResult(f"{text}\n({note})" if note else text, is_error=is_error, taint=taint)


def result_text(agent: str, number: int | str, text: str) -> str:
    return render_prompt("subagent_result", agent=agent, number=number, text=shorten_result(text))


def _max_iterations(definition: SubagentDefinition, request: TurnRequest) -> int | None:
    limits = (definition.max_turns, request.max_iterations)
    return min((limit for limit in limits if limit is not None), default=None)


def _text(definition: SubagentDefinition) -> str:
    if definition.trusted:
        return definition.prompt
    return f"{load_prompt('subagent_stranger')}\n\n{definition.prompt}"
