"""Taint of what a prompt holds before the first call of a tool."""

from agent.context.long_task import taint_of
from agent.context.system_prompt import Workspace
from agent.records import frozen
from agent.run.prompt import PromptDraft
from agent.turn.context_usage import PromptAudience
from agent.turn.request import AgentServices
from agent.types import Taint


@frozen
class WorkspaceTaint:
    """Implements `PromptContributor` for the files of the workspace that the prompt holds."""

    agent: AgentServices

    async def contribute(self, draft: PromptDraft) -> None:
        if draft.reads_workspace:
            draft.taint |= workspace_taint(self.agent.workspace, draft.audience)


def workspace_taint(workspace: Workspace, audience: PromptAudience) -> frozenset[Taint]:
    """Return the taint of the files that the prompt for this audience holds."""
    taint = workspace.taint(audience.memory, audience.root, audience.persona)
    return taint | taint_of(audience.root) if audience.owner else taint
