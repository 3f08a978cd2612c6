"""Requests for turns: their prompt and their permissions."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent.agent import Agent
from agent.context.history_validation import unanswered_calls
from agent.context.long_task import describe_progress
from agent.providers.usage import UsageMeter
from agent.security.taint.taint import TaintState
from agent.tools.base import AddedFolders, Similarity, ToolEnvironment
from agent.turn.journal import CancelToken
from agent.turn.request import TurnRequest
from agent.types import Message, ToolResult
from agent.undo.recorder import RecorderFactory
from gateway.core.messages import CONSOLE, InboundMessage
from gateway.sessions.conversation_search import ConversationSearch
from gateway.sessions.editor_hub import EditorHub
from gateway.sessions.working_folder import take_folder
from gateway.store.port import Store
from gateway.store.repositories.conversations.choices import EFFORT, MODEL
from gateway.store.repositories.execution import turns
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.execution.subagent_tasks import SubagentTask
from gateway.turns.added_folders import added_folders
from gateway.turns.agents.subagents import SubagentCoordinator
from gateway.turns.command_reports import CommandReports
from gateway.turns.compaction import CompactionService
from gateway.turns.job_hooks import JobHooks
from gateway.turns.permissions import StoredDisclosureBudget, TurnPermissions
from gateway.turns.prompt import TurnDraft, build_user_message, is_said
from gateway.turns.store import TurnStore

if TYPE_CHECKING:
    from agent.code.watch.project_watches import ProjectWatches


class TurnRequests:
    """Builder for turn requests: the prompt first, the rest once the prompt is complete."""

    def __init__(  # noqa: PLR0913 - collaborators, passed only by the container
        self,
        *,
        database: Store,
        agent: Agent,
        permissions: TurnPermissions,
        subagents: SubagentCoordinator,
        compactions: CompactionService,
        reports: CommandReports,
        jobs: JobHooks,
        editors: EditorHub,
        similarity: Similarity | None = None,
    ) -> None:
        self._database = database
        self._agent = agent
        self._permissions = permissions
        self._subagents = subagents
        self._compactions = compactions
        self._reports = reports
        self._jobs = jobs
        self._editors = editors
        self._similarity = similarity

    def compose(self, messages: Sequence[InboundMessage], session_mode: str | None) -> Message:
        """Return the message that opens a turn; `session_mode` is the mode of its conversation."""
        last = messages[-1]
        audience = self._permissions.audience(last)
        work = ""
        # A sub-agent learns about its task only from its caller.
        if audience.owner and last.task is None:
            work = self._agent.redactor.clean(describe_progress(audience.root))
        mode: str = self._permissions.mode(last, session_mode)
        if all(map(self._permissions.has_full_access, messages)):
            mode = "full access"
        return build_user_message(messages, mode, work=work)

    async def draft(self, claim: TurnClaim, store: TurnStore) -> TurnDraft:
        """Return the draft of the prompt as stored by the claim.

        Raise `FolderReplaced` if the session's folder was replaced by another one.
        """
        folder = await take_folder(self._database, claim, self._permissions)
        conversation = await store.begin(claim.user_message)
        message = claim.messages[-1]
        audience = self._permissions.audience(message)
        model = message.model or claim.choices.get(MODEL)
        is_subagent = message.kind == "subagent_task"
        mode = self._permissions.mode(message, claim.mode)
        is_new_request = not claim.resumed and any(map(is_said, claim.messages))
        if is_new_request:
            self._reports.reset_limit(claim.session)
        return TurnDraft(
            claim=claim,
            session=claim.session,
            message=conversation.messages[-1],
            conversation=conversation,
            audience=replace(audience, model=model or audience.model),
            folder=folder,
            upto=store.window.head,
            taint=claim.taint,
            effort=message.options.effort or claim.choices.get(EFFORT),
            is_resumed=claim.resumed,
            reads_workspace=not is_subagent,
            # A terminal describes its folder to the model in its messages.
            describes_project=not is_subagent
            and (message.channel != CONSOLE or message.options.in_session_folder),
            # In mode "plan", the memory must not change.
            may_remember=is_new_request and mode != "plan",
            mode=None if is_subagent else mode,
        )

    async def request(
        self,
        draft: TurnDraft,
        store: TurnStore,
        task: SubagentTask | None,
        meter: UsageMeter,
        stop: CancelToken,
    ) -> TurnRequest:
        """Return the request for a complete prompt; `task` is the sub-agent task of the turn."""
        claim, audience, window = draft.claim, draft.audience, store.window
        message = claim.messages[-1]
        results: dict[str, ToolResult] = {}
        if claim.resumed and unanswered_calls(window.messages):
            results = await self._database.transact(
                lambda tx: turns.known_results(tx, claim.turn, stopped=claim.stop_requested)
            )
        request = TurnRequest(
            environment=self._environment(draft, await self._folders(draft, task)),
            messages=window.messages,
            permissions=self._permissions.permissions(
                claim.messages, claim.session, claim.mode, turn=claim.turn
            ),
            model=audience.model,
            persona=audience.persona,
            memory_text=store.memory_text,
            effort=draft.effort,
            max_iterations=message.options.max_iterations,
            known=results,
            trimmed=window.trimmed,
            summary=window.summary,
            keeper=self._compactions.keeper(claim, window),
            begun=claim.stored - 1,
            exposure=TaintState(
                draft.taint, budget=StoredDisclosureBudget(self._database, claim.session)
            ),
            meter=meter,
            stop=stop,
            hooks=self._agent.hooks,
            expansions=draft.expansions,
            watches=self._watches(audience.root),
            join_source=self._editors.servers.of(message.session_key),
        )
        if task is not None:
            return await self._subagents.subagent_request(claim, request, task)
        return await self._subagents.user_request(claim, request)

    async def _folders(self, draft: TurnDraft, task: SubagentTask | None) -> AddedFolders:
        """Return the folders that the owner added; a sub-agent has its conversation's."""
        session = draft.session if task is None else task.root_session
        return AddedFolders(await added_folders(self._database, draft, session))

    def _environment(self, draft: TurnDraft, folders: AddedFolders) -> ToolEnvironment:
        claim, audience = draft.claim, draft.audience
        past = ConversationSearch(self._database, self._permissions.access, claim, self._similarity)
        return ToolEnvironment(
            session=claim.session,
            workspace=audience.root,
            memory=audience.memory,
            owner=audience.owner,
            identity=draft.folder,
            start_folder=audience.start_folder,
            recording=RecorderFactory(self._agent.changes, claim.turn),
            recall=past,
            recall_around=past.around,
            similarity=self._similarity,
            schedule=self._jobs.of_turn(claim),
            places=self._agent.workspace.origin,
            on_command_end=self._reports.of_turn(claim),
            elicit=self._permissions.elicit(claim.messages, claim.session, claim.turn),
            editor=self._editors.files_of(claim.messages[-1].session_key),
            folders=folders,
        )

    def _watches(self, folder: Path) -> "ProjectWatches | None":
        """Return the watches of a project; only Kore changes files in the workspace."""
        is_watched = self._agent.settings.watch and folder != self._agent.workspace.folder
        return self._agent.watches if is_watched else None
