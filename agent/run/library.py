"""Runs of the library, with handoffs between agents."""

import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agent import events
from agent.context.long_task import describe_progress
from agent.context.system_prompt import Workspace
from agent.errors import ConfigError, InputGuardrailTripped, KoreError
from agent.events import Event
from agent.i18n import t
from agent.prompts import render_prompt
from agent.run.content import Prompt, message_of
from agent.run.contributors import (
    BackgroundFacts,
    MemoryReminder,
    PlanModeNotes,
    ProjectNews,
    WorkspaceTaint,
    workspace_taint,
)
from agent.run.history import History
from agent.run.options import RunOptions, new_session
from agent.run.prompt import PromptContributor, PromptDraft, PromptEntry, compose_prompt
from agent.run.run import Run
from agent.run.store import HistoryRunStore
from agent.security.files.folder_identity import FolderIdentity
from agent.security.policy.base import PermissionMode
from agent.security.taint.taint import NOTHING, TaintState
from agent.subagents.handoff import Handoff
from agent.tools.base import AddedFolders, ToolEnvironment
from agent.turn.context_usage import PromptAudience
from agent.turn.guardrails import Guardrails
from agent.turn.hook_chain import report_outside_turn
from agent.turn.request import AgentServices, TurnRequest
from agent.types import Message, Result, assistant
from agent.undo.recorder import OpenChangeLog, RecorderFactory

if TYPE_CHECKING:
    from agent.context.project.session_projects import SessionProjects
    from agent.turn.runner import AgentTurn

# Agents that hand over more often send the conversation back and forth.
_MAX_HANDOFFS = 20


class RunningAgent(AgentServices, Protocol):
    """Services of an agent that `LibraryRun` uses."""

    changes: OpenChangeLog | None

    @property
    def projects(self) -> "SessionProjects": ...

    @property
    def name(self) -> str: ...

    @property
    def handoff_description(self) -> str: ...

    @property
    def mode(self) -> PermissionMode | None: ...

    @property
    def history(self) -> History: ...

    @property
    def guardrails(self) -> Guardrails | None: ...

    @property
    def handoffs_by_name(self) -> Mapping[str, Handoff[Any]]: ...

    @property
    def handoff_agents(self) -> "Sequence[RunningAgent]": ...

    def check_deps(self, deps: Any) -> None: ...

    def added_folders(self, session: str) -> AddedFolders: ...

    def forget_folders(self, session: str) -> None: ...

    def request(
        self, environment: ToolEnvironment, options: RunOptions, **values: Any
    ) -> TurnRequest: ...


RunningAgentT = TypeVar("RunningAgentT", bound=RunningAgent)


class LibraryRun:
    """Run of a library user's agent and of the agents that take over the conversation.

    `failure` is the error that ended the run, if any.
    """

    def __init__(
        self,
        agent: RunningAgent,
        prompt: Prompt,
        deps: Any,
        options: RunOptions,
        guardrails: Guardrails | None,
        *,
        is_data: bool = False,
    ) -> None:
        self._is_data = is_data
        self._agent = agent
        self._prompt = prompt
        self._deps = deps
        self._options = options
        self._guardrails = guardrails
        self._session = options.get("session") or new_session()
        self._turns: list[AgentTurn] = []
        self._closing: list[Message] = []
        self.failure: KoreError | None = None

    async def events(self) -> AsyncGenerator[Event]:
        """Yield the events of the run; the last is `Done`."""
        agent, session = self._agent, self._session
        agents = reachable_agents(agent)
        _check_names(agents)
        for reachable in agents:
            reachable.check_deps(self._deps)
        initial = self._options.get("initial_messages", ())
        store = HistoryRunStore(agent.history, session, agent.toolbox.views, initial)
        run = Run(_contributors(agent), store)
        draft = await self._draft(store)
        await run.prepare(draft)
        store.take_memory(agent.workspace)
        try:
            if store.is_new:
                yield events.SessionCreated(session)
            async with aclosing(self._turn_events(run, store, draft)) as stream:
                async for event in stream:
                    yield event
        finally:
            self.failure = next((turn.failure for turn in self._turns if turn.failure), None)
            # The conversation does not include a message that a guardrail blocked.
            if isinstance(self.failure, InputGuardrailTripped):
                agent.projects.forget(session)
            else:
                await store.finish(self._settled())
            if self._options.get("session"):
                await store.save_views()
            else:
                await self._end_session()
                agent.forget_folders(session)
                for reachable in agents:
                    await reachable.toolbox.end(session)

    async def _end_session(self) -> None:
        """Report the end of a conversation that only this run knows."""
        environment = self._environment(self._agent)
        await report_outside_turn(self._agent, "SessionEnd", environment, {"reason": "other"})

    async def _draft(self, store: HistoryRunStore) -> PromptDraft:
        workspace = self._agent.workspace
        progress = self._agent.redactor.clean(describe_progress(workspace.folder))
        entry = PromptEntry((await message_of(self._prompt)).content)
        message = compose_prompt([entry], datetime.now(), notes=[progress] if progress else [])
        conversation = await store.begin(message)
        return PromptDraft(
            session=self._session,
            message=message,
            conversation=conversation,
            audience=replace(_audience(workspace), model=self._options.get("model")),
            upto=store.marker.mark.upto,
            taint=NOTHING.union(*(message.taint for message in conversation.messages)),
            mode=self._agent.mode,
        )

    async def _turn_events(
        self, run: Run[PromptDraft], store: HistoryRunStore, draft: PromptDraft
    ) -> AsyncGenerator[Event]:
        """Yield the events of turn after turn until no agent hands over."""
        agent = self._agent
        conversation = store.conversation()
        request = agent.request(
            self._environment(agent),
            self._options,
            messages=conversation.messages,
            summary=conversation.summary,
            keeper=store.marker,
            guardrails=self._guardrails,
            exposure=TaintState(draft.taint),
            memory_text=store.memory_text(agent.workspace),
            is_data=self._is_data,
        )
        results: list[Result] = []
        while True:
            turn = run.turn(agent, request)
            self._turns.append(turn)
            async with aclosing(turn.events()) as stream:
                async for event in stream:
                    if isinstance(event, events.Done):
                        results.append(event.result)
                    else:
                        yield event
            if turn.handoff is None:
                break
            if len(self._turns) > _MAX_HANDOFFS:
                text = render_prompt("handed_around", n=_MAX_HANDOFFS).strip()
                self._closing = [assistant(text)]
                results.append(
                    replace(
                        results[-1],
                        text=text,
                        success=False,
                        stopped="loop",
                        messages=tuple(self._closing),
                    )
                )
                break
            handoff = agent.handoffs_by_name[turn.handoff]
            yield events.AgentChanged(agent.name, turn.handoff)
            try:
                agent, request = self._hand_over(handoff, request, store)
            except ConfigError as exc:
                turn.failure = exc
                failure = replace(results[-1], success=False, stopped="error", error_code=exc.code)
                results[-1] = failure
                yield events.Error(exc.code, str(exc), exc.hint)
                break
        yield events.Done(_together(results))

    def _hand_over(
        self, handoff: Handoff[Any], before: TurnRequest, store: HistoryRunStore
    ) -> tuple[RunningAgent, TurnRequest]:
        """Return the next agent and its turn. Raise `ConfigError`."""
        agent: Any = handoff.agent
        settled = self._settled()
        conversation = store.conversation(settled)
        checks: Guardrails | None = agent.guardrails
        if checks is not None:
            # The message has already passed the input guardrails of the first agent.
            read = self._guardrails.read_output if self._guardrails else None
            checks = replace(checks, input=(), read_output=read)
        taint = workspace_taint(agent.workspace, _audience(agent.workspace))
        replies = sum(message.role == "assistant" for message in settled)
        limit = min(agent.settings.max_iterations, self._agent.settings.max_iterations - replies)
        request = agent.request(
            self._environment(agent),
            RunOptions(),
            messages=handoff.visible(conversation.messages),
            summary=conversation.summary,
            # The marker counts messages of the whole conversation.
            keeper=store.marker if handoff.input_filter is None else None,
            guardrails=checks,
            exposure=TaintState(taint | before.exposure.taint),
            begun=0,
            tracing=agent.tracing or before.tracing,
            meter=before.meter,
            max_iterations=max(limit, 1),
            memory_text=store.memory_text(agent.workspace),
            is_data=self._is_data,
        )
        return agent, request

    def _environment(self, agent: RunningAgent) -> ToolEnvironment:
        folder = agent.workspace.folder
        return ToolEnvironment(
            session=self._session,
            workspace=folder,
            memory=agent.workspace.owner_memory,
            owner=True,
            # A tool may still create the folder.
            identity=FolderIdentity.of(folder) if os.path.lexists(folder) else None,
            recording=RecorderFactory(self._agent.changes, time.time_ns()),
            places=agent.workspace.origin,
            deps=self._deps,
            agent=agent.name,
            folders=self._agent.added_folders(self._session),
        )

    def _settled(self) -> list[Message]:
        return [message for turn in self._turns for message in turn.settled()] + self._closing


def reachable_agents(agent: RunningAgentT) -> list[RunningAgentT]:
    """Return the agent and all agents that it may hand over to, directly or not."""
    agents: dict[int, Any] = {}
    waiting: list[Any] = [agent]
    while waiting:
        candidate = waiting.pop()
        if id(candidate) not in agents:
            agents[id(candidate)] = candidate
            waiting += candidate.handoff_agents
    return list(agents.values())


def _check_names(agents: Sequence[RunningAgent]) -> None:
    """Raise `ConfigError` if two agents have the same name."""
    names: set[str] = set()
    for agent in agents:
        if agent.name in names:
            raise ConfigError(t("two agents have the name {name}", name=agent.name))
        names.add(agent.name)


def _audience(workspace: Workspace) -> PromptAudience:
    return PromptAudience(workspace.owner_memory, workspace.folder, owner=True)


def _contributors(agent: RunningAgent) -> list[PromptContributor[PromptDraft]]:
    return [
        WorkspaceTaint(agent),
        BackgroundFacts(agent),
        ProjectNews(agent),
        PlanModeNotes(),
        MemoryReminder(agent),
    ]


def _together(results: Sequence[Result]) -> Result:
    """Return the last result with the texts and messages of the earlier results.

    Its usage already includes theirs.
    """
    last = results[-1]
    if len(results) == 1:
        return last
    return replace(
        last,
        text="\n\n".join(result.text for result in results if result.text),
        messages=tuple(message for result in results for message in result.messages),
    )
