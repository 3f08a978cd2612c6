"""Updates of the project context, added to the message that opens a turn."""

from typing import Protocol

from agent.context.project.session_projects import ProjectSession, SessionProjects
from agent.context.system_prompt import Workspace
from agent.records import frozen
from agent.run.prompt import PromptDraft


class ProjectServices(Protocol):
    """Services of an agent that `ProjectNews` uses."""

    workspace: Workspace

    @property
    def projects(self) -> SessionProjects: ...


@frozen
class ProjectNews:
    """Implements `PromptContributor` for the project context.

    The context is the tree of the folder and the beginnings of its README and configuration files,
    without parts that the conversation already contains.
    """

    agent: ProjectServices

    async def contribute(self, draft: PromptDraft) -> None:
        root = draft.audience.root
        if draft.is_resumed or not draft.describes_project:
            return
        if self.agent.workspace.is_project(root):
            here = ProjectSession(draft.session, root, draft.upto)
            draft.message = await self.agent.projects.with_news(
                here, draft.message, draft.earlier_messages
            )
            draft.taint |= draft.message.taint
