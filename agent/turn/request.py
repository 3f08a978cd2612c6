"""Request to run a turn, and the services that all turns of an agent share."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from agent.context.system_prompt import SystemPrompt, Workspace
from agent.context.token_budget import TokenCalibration
from agent.prompts import render_prompt
from agent.providers.model_settings import ModelSettings
from agent.providers.pool import ModelPool
from agent.providers.usage import InMemoryMeter, UsageMeter
from agent.records import frozen
from agent.security.redaction import Redactor
from agent.security.taint.taint import TaintState
from agent.settings import AgentSettings
from agent.tools.base import ToolEnvironment
from agent.tools.registry import ToolRegistry
from agent.tools.runner import Permissions
from agent.turn.journal import CancelToken, NullJournal, TurnJournal
from agent.turn.offered_tools import OfferedTools
from agent.types import Message, ReasoningEffort, ToolResult

if TYPE_CHECKING:
    # Imported for typing only: an idle gateway does not load these modules.
    from agent.code.watch.project_watches import ProjectWatches
    from agent.context.compaction.compactor import CompactionStore
    from agent.context.compaction.summarizer import Summary
    from agent.skills.catalog import SkillCatalog
    from agent.tools.registry import JoinSource
    from agent.turn.background_hooks import BackgroundHooks
    from agent.turn.guardrails import Guardrails
    from agent.turn.hooks import Hooks, PromptExpansion
    from agent.turn.tracing import Tracing


class AgentServices(Protocol):
    """Services that all turns of an agent share; implemented by `Agent`."""

    background_hooks: "BackgroundHooks"
    gauge: TokenCalibration
    hooks: "tuple[Hooks[Any], ...]"
    models: ModelPool
    offered_tools: OfferedTools
    redactor: Redactor
    settings: AgentSettings
    workspace: Workspace

    @property
    def toolbox(self) -> ToolRegistry: ...
    @property
    def skills(self) -> "SkillCatalog | None": ...


@frozen
class PersonaPrompt:
    """Prompt and tools of an agent with its own character.

    If `alone`, its prompt contains no workspace files, only the project's instructions.
    """

    prompt: str
    toolbox: ToolRegistry
    alone: bool = True

    def system(self, workspace: SystemPrompt, environment: str = "") -> str:
        if self.alone:
            files = "\n\n".join(filter(None, [self.prompt, workspace.instructions]))
            text = render_prompt("system", files=files, place=workspace.place).strip()
            return f"{text}\n\n{environment}".strip()
        return f"{workspace.text}\n\n{self.prompt}".strip()


@frozen
class TurnRequest:
    """Request to run a turn.

    `messages` end with a user message, or with calls that a restart interrupted; `known` are
    results from before the restart, by call id. `trimmed` means that older messages exist,
    `summary` covers the messages before them, and `begun` is the number of trailing messages that
    this turn added before a restart.

    `keeper` stores compactions; without it, older messages are only left out of requests.
    `exposure` is the session's taint and grows with the turn. `character` is the speaking agent, if
    not the main agent, and `persona` its style in this chat (see `Workspace.system_prompt`).
    `is_prompted`: a person, or a job of that person, sent the last message; `expansions` are the
    commands in it that were replaced by prompts. `memory_text` is the memory from the start of the
    session; without it, the file is read. With `watches`, changes in the working folder become
    events of the turn. `join_source` adds tools of the session. `is_data`: a program reads the
    answer, so its links are not defused.
    """

    environment: ToolEnvironment
    messages: Sequence[Message]
    permissions: Permissions
    model: str | None = None
    effort: ReasoningEffort | None = None
    max_iterations: int | None = None
    known: Mapping[str, ToolResult] = field(default_factory=dict)
    trimmed: bool = False
    begun: int | None = None
    summary: "Summary | None" = None
    keeper: "CompactionStore | None" = None
    exposure: TaintState = field(default_factory=TaintState)
    progress: TurnJournal = field(default_factory=NullJournal)
    meter: UsageMeter = field(default_factory=InMemoryMeter)
    stop: CancelToken = field(default_factory=CancelToken)
    character: PersonaPrompt | None = None
    persona: str | None = None
    memory_text: str | None = None
    hooks: "Sequence[Hooks[Any]]" = ()
    is_prompted: bool = True
    expansions: "Sequence[PromptExpansion]" = ()
    guardrails: "Guardrails | None" = None
    tracing: "Tracing | None" = None
    model_settings: ModelSettings | None = None
    watches: "ProjectWatches | None" = None
    join_source: "JoinSource | None" = None
    is_data: bool = False
