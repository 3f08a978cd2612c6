"""One turn to run, as it is handed over, and what all turns of an agent share."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent.context.system_prompt import SystemPrompt, Workspace
from agent.context.token_calibration import TokenCalibration
from agent.prompts import render_prompt
from agent.providers.model_settings import ModelSettings
from agent.providers.pool import ModelPool
from agent.records import frozen
from agent.security.redaction import Redactor
from agent.security.taint.taint import TaintState
from agent.settings import AgentSettings
from agent.tools.base import ToolEnvironment
from agent.tools.registry import ToolRegistry
from agent.tools.runner import Permissions
from agent.turn.journal import CancelToken, NullJournal, TurnJournal
from agent.types import Message, ToolResult
from agent.usage import InMemoryMeter, UsageMeter

if TYPE_CHECKING:
    # An idle gateway holds no more than it needs.
    from agent.code.watch.project_watches import ProjectWatches
    from agent.context.compaction.compactor import CompactionStore
    from agent.context.compaction.summarizer import Summary
    from agent.skills.catalog import SkillCatalog
    from agent.tools.registry import JoinSource
    from agent.turn.guardrails import Guardrails
    from agent.turn.hooks import Hooks
    from agent.turn.tracing import Tracing


class AgentServices(Protocol):
    """What all turns of an agent share; the `Agent` itself."""

    gauge: TokenCalibration
    models: ModelPool
    redactor: Redactor
    settings: AgentSettings
    workspace: Workspace

    @property
    def toolbox(self) -> ToolRegistry: ...
    @property
    def skills(self) -> "SkillCatalog | None": ...


@frozen
class PersonaPrompt:
    """An agent's own text and tools; `alone`, it reads nothing of the workspace's files, and of the
    project's its instructions."""

    prompt: str
    toolbox: ToolRegistry
    alone: bool = True

    def system(self, workspace: SystemPrompt, root: Path, environment: str = "") -> str:
        if self.alone:
            files = "\n\n".join(filter(None, [self.prompt, workspace.instructions]))
            text = render_prompt("system", files=files, root=root).strip()
            return f"{text}\n\n{environment}".strip()
        return f"{workspace.text}\n\n{self.prompt}".strip()


@frozen
class TurnRequest:
    """One turn to run.

    `messages` end with a user message, or with calls that a restart cut off; `known` are the
    results from before the restart, by call id. `trimmed` says that older messages exist, `summary`
    tells of those before them, `begun` is how many at the end are this turn's own from before a
    restart. `keeper` stores what the turn makes shorter; without one it only leaves older messages
    out. `exposure` is what the session has taken in; it grows with the turn. `character` is who
    speaks, when it is not the main agent, and `persona` how it speaks here (see
    `Workspace.system_prompt`). `is_prompted`: a person, or a job of theirs, said the last message.
    `memory_text` is the memory that the session began with; without it
    the file is read. With `watches`, changes in the working folder are events of the turn.
    `join_source` adds tools that belong to the session. `is_data`: a program reads the answer, so
    its links stay as they are.
    """

    environment: ToolEnvironment
    messages: Sequence[Message]
    permissions: Permissions
    model: str | None = None
    thinking: bool | None = None
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
    guardrails: "Guardrails | None" = None
    tracing: "Tracing | None" = None
    model_settings: ModelSettings | None = None
    watches: "ProjectWatches | None" = None
    join_source: "JoinSource | None" = None
    is_data: bool = False
