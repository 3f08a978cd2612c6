"""One run: the turn of an agent, and those of the agents that it hands the conversation over to."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from agent import events
from agent.context.compaction.marker import CompactionMarker, MarkerRecorder, MarkerStore
from agent.context.long_task import describe_progress
from agent.context.memory_snapshot import MemorySnapshot, SnapshotStore
from agent.errors import ConfigError, InputGuardrailTripped, KoreError
from agent.events import Event
from agent.history import History
from agent.i18n import t
from agent.prompts import render_prompt
from agent.run.content import Prompt, message_of
from agent.run.contributors.background import BackgroundFacts
from agent.run.contributors.memory import MemoryReminder
from agent.run.contributors.project import ProjectNews
from agent.run.contributors.taint import WorkspaceTaint, workspace_taint
from agent.run.options import RunOptions, check_beginning, new_session
from agent.run.prompt import PromptContributor, PromptDraft, PromptEntry, compose_prompt
from agent.security.files.folder_identity import FolderIdentity
from agent.security.taint.taint import NOTHING, TaintState
from agent.subagents.handoff import Handoff
from agent.tools.base import ToolEnvironment
from agent.tools.file_views import FileViewStore
from agent.turn.context_usage import PromptAudience
from agent.turn.guardrails import Guardrails
from agent.turn.request import AgentServices, TurnRequest
from agent.types import Message, Result, assistant
from agent.undo.recorder import OpenChangeLog, RecorderFactory

if TYPE_CHECKING:
    from agent.context.project.session_projects import SessionProjects
    from agent.turn.runner import AgentTurn

# More of them in one run are agents that send each other the conversation.
_MOST_HANDOFFS = 20


class RunningAgent(AgentServices, Protocol):
    """What a run needs of an agent."""

    changes: OpenChangeLog | None

    @property
    def projects(self) -> "SessionProjects": ...

    @property
    def name(self) -> str: ...

    @property
    def handoff_description(self) -> str: ...

    @property
    def history(self) -> History: ...

    @property
    def guardrails(self) -> Guardrails | None: ...

    @property
    def handoffs_by_name(self) -> Mapping[str, Handoff[Any]]: ...

    def check_deps(self, deps: Any) -> None: ...

    def request(
        self, environment: ToolEnvironment, options: RunOptions, **values: Any
    ) -> TurnRequest: ...


class AgentRun:
    """Its `events` run it; `failure` is what ended it, if anything did."""

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
        self._turns: list[AgentTurn] = []
        self._closing: list[Message] = []
        self._memory: MemorySnapshot | None = None
        self._taint = NOTHING
        self.failure: KoreError | None = None

    async def events(self) -> AsyncGenerator[Event]:
        """Yield the events of the run; the last is `Done`."""
        agent, options = self._agent, self._options
        agents = reachable(agent)
        for one in agents:
            one.check_deps(self._deps)
        once = not options.get("session")
        session = options.get("session") or new_session()
        await self._restore_views(session)
        messages = await agent.history.load(session)
        initial = [] if messages else check_beginning(options.get("initial_messages", ()))
        is_new, messages = not messages, messages or initial
        mark = (
            await agent.history.mark(session)
            if isinstance(agent.history, MarkerStore)
            else CompactionMarker()
        )
        keeper = MarkerRecorder(mark)
        draft = await self._draft(session, mark, messages)
        for contributor in _contributors(agent):
            await contributor.contribute(draft)
        for callback in draft.after_store:
            callback()
        question = draft.message
        self._taint = draft.taint
        stored_memory = await _stored_memory(agent.history, session)
        self._memory = self._memory_for(stored_memory, mark.upto)
        try:
            if is_new:
                yield events.SessionCreated(session)
            async with aclosing(self._pass_on(session, [*messages, question], keeper)) as stream:
                async for event in stream:
                    yield event
        finally:
            self.failure = next((one.failure for one in self._turns if one.failure), None)
            # What a guardrail kept out is no part of the conversation.
            if isinstance(self.failure, InputGuardrailTripped):
                agent.projects.forget(session)
            else:
                if any(turn.is_withdrawn for turn in self._turns):
                    from agent.turn.hooks import withdrawn_prompt

                    question = withdrawn_prompt()
                new = [*initial, question, *self._settled()]
                memory = self._memory if self._memory != stored_memory else None
                await asyncio.shield(_store(agent.history, session, new, mark, keeper, memory))
            if once:
                for one in agents:
                    await one.toolbox.end(session)
            else:
                await asyncio.shield(self._store_views(session))

    async def _restore_views(self, session: str) -> None:
        history, views = self._agent.history, self._agent.toolbox.views
        if isinstance(history, FileViewStore) and not views.has_any(session):
            views.restore(session, await history.file_views(session))

    async def _store_views(self, session: str) -> None:
        history = self._agent.history
        if not isinstance(history, FileViewStore):
            return
        if (text := self._agent.toolbox.views.take_stored_form(session)) is not None:
            await history.set_file_views(session, text)

    async def _draft(
        self, session: str, mark: CompactionMarker, messages: Sequence[Message]
    ) -> PromptDraft:
        agent, workspace = self._agent, self._agent.workspace
        progress = agent.redactor.clean(describe_progress(workspace.folder))
        entry = PromptEntry((await message_of(self._prompt)).content)
        message = compose_prompt([entry], datetime.now(), notes=[progress] if progress else [])
        conversation = mark.conversation([*messages, message])
        return PromptDraft(
            session=session,
            message=message,
            conversation=conversation,
            audience=PromptAudience(
                workspace.owner_memory,
                workspace.folder,
                owner=True,
                model=self._options.get("model"),
            ),
            upto=mark.upto,
            taint=NOTHING.union(*(message.taint for message in conversation.messages)),
        )

    async def _pass_on(
        self, session: str, messages: Sequence[Message], keeper: MarkerRecorder
    ) -> AsyncGenerator[Event]:
        """Turn after turn, as long as one hands over."""
        from agent.turn.runner import AgentTurn

        agent = self._agent
        conversation = keeper.mark.conversation(messages)
        task = agent.request(
            self._environment(agent, session),
            self._options,
            messages=conversation.messages,
            summary=conversation.summary,
            keeper=keeper,
            guardrails=self._guardrails,
            exposure=TaintState(self._taint),
            memory_text=self._memory_text(agent),
            is_data=self._is_data,
        )
        results: list[Result] = []
        while True:
            turn = AgentTurn(agent, task)
            self._turns.append(turn)
            async with aclosing(turn.events()) as stream:
                async for event in stream:
                    if isinstance(event, events.Done):
                        results.append(event.result)
                    else:
                        yield event
            if turn.handoff is None:
                break
            if len(self._turns) > _MOST_HANDOFFS:
                text = render_prompt("handed_around", n=_MOST_HANDOFFS).strip()
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
            settled = self._settled()
            try:
                agent, task = self._hand_over(handoff, [*messages, *settled], task, keeper)
            except ConfigError as exc:
                turn.failure = exc
                failure = replace(results[-1], success=False, stopped="error", error_code=exc.code)
                results[-1] = failure
                yield events.Error(exc.code, str(exc), exc.hint)
                break
        yield events.Done(_together(results))

    def _hand_over(
        self,
        handoff: Handoff[Any],
        messages: Sequence[Message],
        before: TurnRequest,
        keeper: MarkerRecorder,
    ) -> tuple[RunningAgent, TurnRequest]:
        """The next agent and its turn. Raises `ConfigError`."""
        agent: Any = handoff.agent
        conversation = keeper.mark.conversation(messages)
        checks: Guardrails | None = agent.guardrails
        if checks is not None:
            # The message has passed those of the first agent.
            read = self._guardrails.read_output if self._guardrails else None
            checks = replace(checks, input=(), read_output=read)
        workspace = agent.workspace
        audience = PromptAudience(workspace.owner_memory, workspace.folder, owner=True)
        taint = workspace_taint(workspace, audience) | before.exposure.taint
        replies = sum(one.role == "assistant" for one in self._settled())
        most = min(agent.settings.max_iterations, self._agent.settings.max_iterations - replies)
        task = agent.request(
            self._environment(agent, before.environment.session),
            RunOptions(),
            messages=handoff.visible(conversation.messages),
            summary=conversation.summary,
            # Its places are those of the whole conversation.
            keeper=keeper if handoff.input_filter is None else None,
            guardrails=checks,
            exposure=TaintState(taint),
            begun=0,
            tracing=agent.tracing or before.tracing,
            meter=before.meter,
            max_iterations=max(most, 1),
            memory_text=self._memory_text(agent),
            is_data=self._is_data,
        )
        return agent, task

    def _memory_for(self, stored: MemorySnapshot | None, upto: int) -> MemorySnapshot | None:
        """The memory that the session began with; taken anew when more is told in a summary. None
        where the history keeps none: then the file is read."""
        workspace = self._agent.workspace
        file = str(workspace.owner_memory)
        if stored is not None and (stored.file, stored.upto) == (file, upto):
            return stored
        if not isinstance(self._agent.history, SnapshotStore):
            return None
        text = workspace.memory_snapshot(workspace.owner_memory)
        return None if text is None else MemorySnapshot(file, text, upto)

    def _memory_text(self, agent: RunningAgent) -> str | None:
        file = str(agent.workspace.owner_memory)
        return self._memory.text if self._memory and self._memory.file == file else None

    def _environment(self, agent: RunningAgent, session: str) -> ToolEnvironment:
        folder = agent.workspace.folder
        return ToolEnvironment(
            session=session,
            workspace=folder,
            memory=agent.workspace.owner_memory,
            owner=True,
            # A tool may make the folder yet.
            identity=FolderIdentity.of(folder) if os.path.lexists(folder) else None,
            recording=RecorderFactory(self._agent.changes, time.time_ns()),
            places=agent.workspace.origin,
            deps=self._deps,
            agent=agent.name,
        )

    def _settled(self) -> list[Message]:
        return [one for turn in self._turns for one in turn.settled()] + self._closing


def reachable(agent: RunningAgent) -> list[RunningAgent]:
    """The agent, and every one that the conversation may come to. Raises `ConfigError` for two of
    one name."""
    agents: dict[str, RunningAgent] = {}
    waiting = [agent]
    while waiting:
        one = waiting.pop()
        if one.name not in agents:
            agents[one.name] = one
            # What a `Handoff` is made of is an agent.
            others: Any = [handoff.agent for handoff in one.handoffs_by_name.values()]
            waiting += others
        elif agents[one.name] is not one:
            raise ConfigError(t("two agents have the name {name}", name=one.name))
    return list(agents.values())


def _contributors(agent: RunningAgent) -> list[PromptContributor[PromptDraft]]:
    return [
        WorkspaceTaint(agent),
        BackgroundFacts(agent),
        ProjectNews(agent),
        MemoryReminder(agent),
    ]


def _together(results: Sequence[Result]) -> Result:
    """The last turn's result, with what was said in those before it. Usage is counted across."""
    last = results[-1]
    if len(results) == 1:
        return last
    return replace(
        last,
        text="\n\n".join(one.text for one in results if one.text),
        messages=tuple(message for one in results for message in one.messages),
    )


async def _stored_memory(history: History, session: str) -> MemorySnapshot | None:
    return await history.memory(session) if isinstance(history, SnapshotStore) else None


async def _store(
    history: History,
    session: str,
    messages: list[Message],
    before: CompactionMarker,
    keeper: MarkerRecorder,
    memory: MemorySnapshot | None,
) -> None:
    """First what a mark counts, then the mark, and the memory if it is new."""
    await history.append(session, messages)
    if isinstance(history, MarkerStore) and keeper.mark != before:
        await history.set_mark(session, keeper.mark)
    if memory is not None and isinstance(history, SnapshotStore):
        await history.set_memory(session, memory)
