"""Taint at the start of a turn, before any tool is called."""

from agent.context.long_task import taint_of
from agent.context.system_prompt import Workspace
from agent.records import frozen
from agent.run.prompt import PromptDraft
from agent.turn.context_usage import PromptAudience
from agent.turn.request import AgentServices
from agent.types import Taint


@frozen
class WorkspaceTaint:
    """Implements `PromptContributor` for the files of the workspace in the prompt."""

    agent: AgentServices

    async def contribute(self, draft: PromptDraft) -> None:
        if draft.reads_workspace:
            draft.taint |= workspace_taint(self.agent.workspace, draft.audience)


def workspace_taint(workspace: Workspace, audience: PromptAudience) -> frozenset[Taint]:
    """Return the taint of the files in the prompt for this audience."""
    taint = workspace.taint(audience.memory, audience.root, audience.persona)
    return taint | taint_of(audience.root) if audience.owner else taint
