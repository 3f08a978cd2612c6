"""Contributors to the prompt: background commands, the project, taint, plan mode, memory."""

from dataclasses import replace
from typing import Protocol

from agent.context.compaction.compactor import Conversation
from agent.context.long_task import taint_of
from agent.context.project.session_projects import ProjectSession, SessionProjects
from agent.context.system_prompt import Workspace
from agent.errors import ConfigError
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.run.prompt import PromptDraft
from agent.turn.context_usage import PromptAudience, measure_context, tokens_of
from agent.turn.request import AgentServices
from agent.types import Context, Taint

# Share of a full window above which the model is reminded.
_REMINDER_SHARE = 0.7
# Share of the model's window below which the conversation is not measured.
_SURELY_ROOM_SHARE = 0.2


@frozen
class MemoryReminder:
    """Implements `PromptContributor` for conversations that will soon be summarized.

    A conversation is reminded once, and never after untrusted text: the person would have to
    approve every line without an apparent reason.
    """

    agent: AgentServices

    async def contribute(self, draft: PromptDraft) -> None:
        if draft.is_resumed or not draft.may_remember or "untrusted" in draft.taint:
            return
        messages = [*draft.earlier_messages, draft.message]
        conversation = replace(draft.conversation, messages=messages)
        try:
            if not self._is_nearly_full(draft.audience, conversation):
                return
        except ConfigError:
            # The turn reports the error.
            return
        reminder = Context(load_prompt("remember_now").strip())
        if not any(reminder in message.content for message in messages):
            draft.append(reminder.text)

    def _is_nearly_full(self, audience: PromptAudience, conversation: Conversation) -> bool:
        """Return whether the window is nearly full. Raise `ConfigError` without a usable model."""
        agent = self.agent
        window_tokens = agent.models.open(audience.model).window_tokens
        if conversation.tokens < window_tokens * _SURELY_ROOM_SHARE:
            return False
        if not agent.toolbox.has("memory"):
            return False
        budget = measure_context(agent, audience)
        tokens = tokens_of(agent, audience, conversation, budget)
        return tokens >= budget.full_at_tokens * _REMINDER_SHARE


# A reply with this heading hands over a plan; any other reply in plan mode is conversation.
PLAN_HEADING = "# Plan"


def has_plan(reply: str) -> bool:
    """Return whether a reply of the model hands over a plan."""
    heading = PLAN_HEADING.strip("# ").casefold()
    lines = (line.strip() for line in reply.splitlines() if line.startswith("#"))
    return any(line.strip("#*: ").casefold() == heading for line in lines)


@frozen
class PlanModeNotes:
    """Implements `PromptContributor` for the beginning and the end of plan mode.

    The newest note in the conversation shows what the model knows, even after a restart or a
    summary.
    """

    async def contribute(self, draft: PromptDraft) -> None:
        if draft.is_resumed or draft.mode is None:
            return
        begin = Context(render_prompt("plan_mode", heading=PLAN_HEADING).strip())
        end = Context(load_prompt("plan_mode_over").strip())
        notes = (
            part
            for message in reversed(draft.earlier_messages)
            for part in reversed(message.content)
            if part in (begin, end)
        )
        knows_plan_mode = next(notes, end) == begin
        if knows_plan_mode != (draft.mode == "plan"):
            draft.append((end if knows_plan_mode else begin).text)


@frozen
class BackgroundFacts:
    """Implements `PromptContributor`. Once the prompt is stored, the commands count as reported."""

    agent: AgentServices

    async def contribute(self, draft: PromptDraft) -> None:
        if draft.is_resumed:
            return
        toolbox, session = self.agent.toolbox, draft.session
        if facts := await toolbox.facts(session):
            draft.append(f"[{'; '.join(facts)}]")
        draft.after_store.append(lambda: toolbox.mark_reported(session))


@frozen
class WorkspaceTaint:
    """Implements `PromptContributor` for the files of the workspace in the prompt."""

    agent: AgentServices

    async def contribute(self, draft: PromptDraft) -> None:
        if draft.reads_workspace:
            draft.taint |= workspace_taint(self.agent.workspace, draft.audience)


def workspace_taint(workspace: Workspace, audience: PromptAudience) -> frozenset[Taint]:
    """Return the taint of the files in the prompt for this audience."""
    taint = workspace.taint(audience.memory, audience.root, audience.persona, audience.start_folder)
    return taint | taint_of(audience.root) if audience.owner else taint


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
            here = ProjectSession(draft.session, root, draft.upto, draft.audience.start_folder)
            draft.message = await self.agent.projects.with_news(
                here, draft.message, draft.earlier_messages
            )
            draft.taint |= draft.message.taint
