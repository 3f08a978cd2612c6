"""Configuration of a sub-agent's turn: prompt, tools, model and permissions."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from agent.errors import ConfigError, ToolError
from agent.prompts import load_prompt, render_prompt
from agent.providers.pool import ModelPool
from agent.security.policy.engine import DelegatedPolicy, NamedApprover
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.subagents.definition import BUILT_IN, SubagentDefinition, family_of, model_of
from agent.tools.registry import ToolRegistry
from agent.tools.runner import Permissions
from agent.turn.request import AgentServices, PersonaPrompt, TurnRequest
from agent.types import Taint

RESULT_LIMIT_CHARS = 20_000
_ROSTER_CHARS = 700
_SUMMARY_CHARS = 70


def persona_for(
    definition: SubagentDefinition, toolbox: ToolRegistry, *, may_send: bool
) -> PersonaPrompt:
    """Return the prompt and the tools of a sub-agent, which sees only its own prompt.

    With `may_send` it may start other sub-agents.
    """

    def is_chosen(tool: str) -> bool:
        kind = toolbox.traits(tool).kind
        # No person answers its questions: the caller may be another model.
        if kind == "ask" or (kind == "delegate" and not may_send):
            return False
        return definition.chooses(tool)

    return PersonaPrompt(_text(definition), toolbox.only(is_chosen, definition.tools or ()))


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
    most = [item for item in (definition.max_turns, task.max_iterations) if item is not None]
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
        max_iterations=min(most, default=None),
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
    """Return the taint that an agent brings by its origin."""
    return NOTHING if definition.trusted else UNTRUSTED


def find(
    agents: Mapping[str, SubagentDefinition],
    name: str,
    lookup: Callable[[str], SubagentDefinition | None],
) -> SubagentDefinition:
    """Return the agent that a model asks for. Raises `ToolError` with the available names."""
    definition = lookup(name)
    if definition is None:
        names = ", ".join(list(agents)[:60])
        raise ToolError(f"There is no agent {name[:80]!r}; available: {names}.")
    return definition


def model_for(
    models: ModelPool,
    requested: str | None,
    definition: SubagentDefinition | None,
    caller: str | None,
) -> tuple[str | None, str | None]:
    """Return the model of a sub-agent, and a sentence if it replaces the wanted model.

    None is the default model; `caller` is the caller's model.
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
        summary = " ".join(agent.description.split())[:_SUMMARY_CHARS]
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


def result_text(agent: str, number: int | str, text: str) -> str:
    return render_prompt("subagent_result", agent=agent, number=number, text=shorten_result(text))


def _text(definition: SubagentDefinition) -> str:
    if definition.trusted:
        return definition.prompt
    return f"{load_prompt('subagent_stranger')}\n\n{definition.prompt}"
