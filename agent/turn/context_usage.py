"""How an agent's window would be filled for a person, without asking the model."""

from pathlib import Path

from agent.context.environment_block import describe_environment
from agent.context.token_budget import ContextBudget, budget_for
from agent.context.token_calibration import counted_as
from agent.records import frozen
from agent.tools.registry import ToolRegistry
from agent.turn.request import AgentServices


@frozen
class PromptAudience:
    """Who speaks where, as a `TurnRequest` has it; `model` is None for the default one."""

    memory: Path
    root: Path
    owner: bool
    model: str | None = None
    persona: str | None = None
    agent: str | None = None


def environment_of(
    agent: AgentServices, toolbox: ToolRegistry, root: Path, *, full_access: bool = False
) -> str:
    """What the system prompt says of the place; nothing to an agent that runs no commands."""
    if not any(spec.name == "exec" for spec in toolbox.specs()):
        return ""
    is_project = agent.workspace.is_project(root)
    return describe_environment(
        agent.settings, root, is_project=is_project, full_access=full_access
    )


def measure_context(agent: AgentServices, speaking: PromptAudience) -> ContextBudget:
    """Raises `ConfigError` when the model cannot be used."""
    opened = agent.models.open(speaking.model)
    prompt = agent.workspace.system_prompt(
        speaking.memory,
        speaking.root,
        owner=speaking.owner,
        persona=speaking.persona,
        environment=environment_of(agent, agent.toolbox, speaking.root),
    )
    return budget_for(
        opened.context_tokens,
        prompt.text,
        agent.toolbox.specs(
            in_project=agent.workspace.is_project(speaking.root), window=opened.context_tokens
        ),
        opened.max_tokens or agent.settings.max_tokens,
        agent.gauge.factor(counted_as(opened)),
    )
