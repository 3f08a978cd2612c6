"""Expected context usage of an agent for a person, computed without a model call."""

from dataclasses import replace
from pathlib import Path

from agent.context.compaction.compactor import Conversation
from agent.context.environment_block import describe_environment
from agent.context.focused_files import FileFocus
from agent.context.token_budget import ContextBudget, budget_for, counted_as
from agent.prompts import render_prompt
from agent.providers.base import ToolSpec
from agent.providers.pool import OpenModel
from agent.records import frozen
from agent.tools.registry import ToolRegistry
from agent.turn.request import AgentServices


@frozen
class PromptAudience:
    """Speaker and place of a prompt, as in `TurnRequest`; `model` None is the default model.

    Relative paths start in `start_folder`, a folder inside of `root`; None for `root` itself.
    """

    memory: Path
    root: Path
    owner: bool
    model: str | None = None
    persona: str | None = None
    agent: str | None = None
    start_folder: Path | None = None

    @property
    def base(self) -> Path:
        return self.start_folder or self.root


def environment_of(
    agent: AgentServices, toolbox: ToolRegistry, root: Path, *, full_access: bool = False
) -> str:
    """Return the parts of the system prompt on command execution, skills and starting MCP servers.

    The first part is included only for an agent that runs commands.
    """
    texts = []
    if toolbox.runs_commands:
        is_project = agent.workspace.is_project(root)
        texts.append(
            describe_environment(
                agent.settings, root, is_project=is_project, full_access=full_access
            )
        )
    if agent.skills is not None and toolbox.has("skills"):
        texts.append(agent.skills.listing(root))
    if names := toolbox.starting:
        texts.append(render_prompt("mcp/starting", names=", ".join(names)))
    return "\n\n".join(filter(None, texts))


def tools_of(
    agent: AgentServices, toolbox: ToolRegistry, root: Path, opened: OpenModel, *, owner: bool
) -> tuple[ToolSpec, ...]:
    """Return the specs of the tools for a model in this folder.

    Roles of other people than the owner limit the tool that replaces strings, so they keep it.
    """
    has_skills = agent.skills is not None and bool(agent.skills.listing(root))
    return toolbox.specs(
        in_project=agent.workspace.is_project(root),
        window=opened.window_tokens,
        skills=has_skills,
        patches=opened.patches and owner,
    )


def tokens_of(
    agent: AgentServices, speaking: PromptAudience, conversation: Conversation, room: ContextBudget
) -> int:
    """Return the tokens of a conversation in a request, without evicted files."""
    focus = FileFocus(agent.toolbox, speaking.base)
    messages = focus.fit(conversation.messages, room.focus_tokens).messages
    return replace(conversation, messages=list(messages)).tokens


def measure_context(agent: AgentServices, speaking: PromptAudience) -> ContextBudget:
    """Return the context budget. Raise `ConfigError` if the model cannot be used."""
    opened = agent.models.open(speaking.model)
    prompt = agent.workspace.system_prompt(
        speaking.memory,
        speaking.root,
        start_folder=speaking.start_folder,
        owner=speaking.owner,
        persona=speaking.persona,
        environment=environment_of(agent, agent.toolbox, speaking.root),
    )
    return budget_for(
        opened.window_tokens,
        prompt.text,
        tools_of(agent, agent.toolbox, speaking.root, opened, owner=speaking.owner),
        opened.max_tokens or agent.settings.max_tokens,
        agent.gauge.factor(counted_as(opened)),
    )
