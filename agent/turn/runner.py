"""Execution of a turn: the task for its loop, its events and its result."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar

from agent import events
from agent.context.compaction.compactor import Compactor, Conversation, PrefixStore
from agent.context.compaction.summarizer import Summariser
from agent.context.edited_files import EditedFiles
from agent.context.focused_files import FileFocus
from agent.context.history_validation import close_unanswered_calls, result_message
from agent.context.images import ImageLoader
from agent.context.request_prefix import RequestPrefix
from agent.context.request_window import RequestWindow
from agent.context.token_budget import ContextBudget, budget_for, counted_as
from agent.errors import (
    ConfigError,
    GuardrailTripped,
    KoreError,
    LimitReached,
    PolicyDenied,
    ProviderError,
)
from agent.events import Event
from agent.i18n import mark_for_translation, t
from agent.prompts import load_prompt
from agent.providers.base import ToolSpec
from agent.providers.model_settings import ModelSettings, is_forced
from agent.providers.pool import OpenModel
from agent.providers.usage import UsageTotals
from agent.security.policy.base import SERVER_TOOLS
from agent.security.taint.taint import TaintState
from agent.tools.base import CallContext
from agent.tools.file_views import FileViews
from agent.tools.registry import ToolRegistry
from agent.tools.run_context import RunContext
from agent.tools.runner import ToolRunner
from agent.turn.completion_signal import find_signal
from agent.turn.context_usage import environment_of, tools_of
from agent.turn.event_stream import EventStream
from agent.turn.hook_chain import HookChain
from agent.turn.hooks import withdrawn_prompt
from agent.turn.loop import AgentLoop, ModelCallConfig
from agent.turn.request import AgentServices, TurnRequest
from agent.turn.tool_executor import ToolExecutor, TurnAborted
from agent.types import Context, Message, Result, Stopping, ToolCall, assistant

if TYPE_CHECKING:
    from agent.turn.project_changes import TurnChanges

_CACHE_KEY_DIGITS = 32
_MAX_NAMES_CHARS = 300
T = TypeVar("T")
_SILENCE = mark_for_translation("The model returned no answer. Try again, or choose another model.")


class AgentTurn:
    """Run of one turn: a task executes the loop and emits events, which `events` yields."""

    def __init__(self, agent: AgentServices, task: TurnRequest) -> None:
        self._agent = agent
        self._task = task
        self._outlet = EventStream()
        self._loop: AgentLoop | None = None
        self._closing: tuple[Message, ...] = ()
        self._is_withheld = False
        self._opened: OpenModel | None = None
        self._changes: TurnChanges | None = None
        tracing = task.tracing
        self._tracing = tracing.of(RunContext.of(task.environment)) if tracing else None
        # The error that ended the turn, if any.
        self.failure: KoreError | None = None

    async def events(self) -> AsyncGenerator[Event]:
        """Yield the events, ending with `Done`, also if the turn is stopped."""
        writer = asyncio.create_task(self._write(), name=f"turn {self._task.environment.session}")
        self._task.stop.bind(writer)
        try:
            async with aclosing(self._outlet.drain(writer)) as stream:
                async for event in stream:
                    yield event
            if writer.cancelled():
                # Cancelled through the stop token: the turn still has a result.
                yield events.Done(self._result("cancelled"))
            else:
                for event in writer.result():
                    yield event
        finally:
            writer.cancel()
            await asyncio.wait({writer})

    @property
    def handoff(self) -> str | None:
        """Target agent of a handoff in this turn, if any."""
        return self._loop.handoff if self._loop else None

    def settled(self) -> list[Message]:
        """Return the new messages; they are valid at any time."""
        if self._loop is not None:
            messages = [*self._loop.settled(), *self._closing]
            return _without_answer(messages) if self._is_withheld else messages
        results = {
            call_id: result_message(call_id, result) for call_id, result in self._task.known.items()
        }
        return close_unanswered_calls(self._task.messages, results)

    async def _write(self) -> list[Event]:
        """Run the loop and return the final events, which the reader gets in any case."""
        if self._tracing is None:
            return await self._run_loop()
        with self._tracing.agent() as end:
            last = await self._run_loop()
            opened = self._opened
            for event in last:
                if isinstance(event, events.Done) and opened is not None:
                    end(event.result, opened.provider.name, opened.model)
            return last

    async def _run_loop(self) -> list[Event]:
        try:
            self._loop = await self._prepare()
            if self._changes is None:
                result = await self._work(self._loop)
            else:
                async with self._changes.follow():
                    result = await self._work(self._loop)
        except TurnAborted as exc:
            self._closing = (assistant(str(exc)),)
            result = self._result(exc.why)
        except LimitReached as exc:
            self._closing = (assistant(str(exc)),)
            result = replace(self._result("limit"), error_code=exc.code)
        except (ProviderError, ConfigError, PolicyDenied, GuardrailTripped) as exc:
            self.failure = exc
            result = replace(self._result("error"), error_code=exc.code)
            clean = self._agent.redactor.clean
            hint = exc.hint and clean(exc.hint)
            return [events.Error(exc.code, clean(str(exc)), hint), events.Done(result)]
        if result.signal is None:
            return [events.Done(result)]
        return [events.Signalled(result.signal, result.signal_reason), events.Done(result)]

    async def _work(self, loop: AgentLoop) -> Result:
        """Run the loop to its end, between the guardrails."""
        task = self._task
        if task.hooks:
            await self._consult_hooks(loop)
        most = task.max_iterations or self._agent.settings.max_iterations
        if task.guardrails is None:
            await loop.run(most)
            return self._result(None)
        context: RunContext[Any] = RunContext.of(task.environment)
        await task.guardrails.run(context, task.messages[-1], lambda: loop.run(most))
        result = self._result(None)
        if self.handoff is not None:
            # Another agent answers.
            return result
        try:
            await task.guardrails.check_output(context, result)
        except GuardrailTripped:
            self._is_withheld = True
            raise
        return result

    async def _consult_hooks(self, loop: AgentLoop) -> None:
        """Let hooks add to the person's message or withhold it from the model."""
        task, question = self._task, self._task.messages[-1]
        is_begun = any(message.role != "user" for message in loop.earlier_messages)
        # A replacement by a hook contains no text of a person.
        is_said = not all(isinstance(part, Context) for part in question.content)
        if not task.is_prompted or question.role != "user" or is_begun or not is_said:
            return
        prompts = sum(message.role == "user" for message in task.messages)
        is_new = prompts == 1 and task.summary is None and not task.trimmed
        words = await loop.hooks_begin(question.text, task.expansions, is_new_session=is_new)
        if words.refusal is not None:
            await task.progress.replace_prompt(withdrawn_prompt())
            refusal = self._agent.redactor.clean(words.refusal)
            raise TurnAborted("hook", t("A hook blocked this message: {why}", why=refusal))
        if words.text:
            await loop.add_words_of_hook(words)

    def _hook_context(self) -> CallContext:
        """Return the context for hook calls outside tool calls."""
        return CallContext(
            ToolCall("", "hook", {}, "{}"),
            self._task.environment,
            lambda text, stream: None,
            taint=self._task.exposure.taint,
            redactor=self._agent.redactor,
            tell=self._outlet.emit,
        )

    async def _prepare(self) -> AgentLoop:
        agent, task = self._agent, self._task
        here = replace(task.environment, meter=task.meter)
        opened = self._opened = agent.models.open(task.model)
        toolbox = self._toolbox
        tool_notices = await toolbox.refresh()
        task.exposure.recall((), toolbox.taint)
        environment = environment_of(
            agent, toolbox, here.workspace, full_access=task.permissions.full_access
        )
        prompt = agent.workspace.system_prompt(
            here.memory,
            here.workspace,
            start_folder=here.start_folder,
            owner=here.owner,
            persona=task.persona,
            memory_text=task.memory_text,
            environment=environment,
        )
        text = prompt.text
        if task.character is not None:
            text = task.character.system(prompt, environment)
        await self._outlet.emit(
            events.SessionStart(here.session, opened.provider.name, opened.model)
        )
        for notice in (*agent.models.take_notices(), *prompt.notices, *tool_notices):
            await self._outlet.emit(events.Notice("warning", notice))
        current_tools = tools_of(agent, toolbox, here.workspace, opened, owner=here.owner)
        searches = [
            spec.name
            for spec in current_tools
            if toolbox.traits(spec.name).governed_by == SERVER_TOOLS
        ]
        tools = agent.offered_tools.keep(here.session, current_tools, searches)
        if waiting := agent.offered_tools.take_waiting(here.session, current_tools):
            text = t(
                "New tools of MCP servers are offered in the next conversation (/new): {names}",
                names=", ".join(waiting)[:_MAX_NAMES_CHARS],
            )
            await self._outlet.emit(events.Notice("warning", text))
        wishes = task.model_settings or ModelSettings()
        if is_forced(wishes.tool_choice) and wishes.tool_choice != "required":
            _check_tool_choice(wishes.tool_choice, tools)
        effort = task.effort or wishes.reasoning_effort or agent.settings.effort
        if agent.workspace.is_project(here.workspace):
            wishes = wishes.over(opened.project)
        hooks = None
        if task.hooks:
            hooks = HookChain(task, agent, toolbox, self._hook_context)
        call = ModelCallConfig(
            provider=opened.provider,
            model=opened.model,
            system=agent.redactor.clean(text),
            tools=tools,
            temperature=_first(
                wishes.temperature, _first(opened.temperature, agent.settings.temperature)
            ),
            max_tokens=wishes.max_tokens or opened.max_tokens or agent.settings.max_tokens,
            effort=effort,
            options=wishes.options(),
            hooks=hooks,
            tracing=self._tracing,
            redactor=agent.redactor,
            exposure=None if task.is_data else task.exposure,
            tariff=opened.tariff,
            fallback_tariffs=opened.fallback_tariffs,
            # A vendor need not know whom its users talk to.
            cache_key=sha256(here.session.encode()).hexdigest()[:_CACHE_KEY_DIGITS],
        )
        if task.summary is not None:
            task.exposure.recall(task.summary.words, task.summary.taint)
        for message in task.messages:
            task.exposure.take(message)
        runner = ToolRunner(
            toolbox,
            task.permissions,
            timeout_s=agent.settings.call_timeout_s,
            exposure=task.exposure,
            redactor=agent.redactor,
            limit_bytes=agent.settings.tools.output_limit_bytes,
        )
        runner.interceptor = hooks
        runner.tracing = self._tracing
        executor = ToolExecutor(runner, here, task.progress, self._outlet, task.known)
        executor.changes = self._changes = self._watch(runner.views)
        await executor.emit_file_changes((), runner.views.take_reported_views(here.session))
        return AgentLoop(
            call, self._view(call, opened), executor, task.progress, self._outlet, task.meter
        )

    def _watch(self, views: FileViews) -> "TurnChanges | None":
        """Return the change reporter if the project is watched, else None."""
        task = self._task
        if task.watches is None:
            return None
        from agent.turn.project_changes import TurnChanges

        here = task.environment
        return TurnChanges(task.watches, here.workspace, views, here.session, self._outlet.emit)

    def _view(self, call: ModelCallConfig, opened: OpenModel) -> RequestWindow:
        agent, task = self._agent, self._task
        compactor = None
        room = budget_for(opened.window_tokens, call.system, call.tools, call.max_tokens)
        if task.keeper is not None:
            prefix = self._prefix(call, opened, room)
            if isinstance(task.keeper, PrefixStore):
                task.keeper.remember_prefix(prefix)
            summariser = Summariser(agent.models, agent.redactor, prefix)
            may_compact = call.hooks.may_compact if call.hooks is not None else None
            compactor = Compactor(summariser, task.exposure, task.meter, task.keeper, may_compact)
        window = RequestWindow(
            Conversation(list(task.messages), task.trimmed, task.summary, task.begun),
            room,
            counted_as(opened),
            agent.gauge,
            compactor,
            ImageLoader(agent.workspace.folder),
        )
        window.focus = self._focus
        return window

    def _prefix(
        self, call: ModelCallConfig, opened: OpenModel, room: ContextBudget
    ) -> RequestPrefix:
        agent = self._agent
        return RequestPrefix(
            model=self._task.model,
            model_id=call.model,
            system=call.system,
            tools=call.tools,
            temperature=call.temperature,
            max_tokens=call.max_tokens,
            options=call.request_options(has_called=True),
            cache_key=call.cache_key,
            room=room,
            gauge=agent.gauge,
            counted_as=counted_as(opened),
            folder=agent.workspace.folder,
            edited=self._edited_files(call),
            focus=self._focus,
        )

    @cached_property
    def _toolbox(self) -> ToolRegistry:
        character, join = self._task.character, self._task.join_source
        toolbox = self._agent.toolbox if character is None else character.toolbox
        return toolbox if join is None else toolbox.joined(join)

    @cached_property
    def _focus(self) -> FileFocus:
        return FileFocus(self._toolbox, self._task.environment.base)

    def _edited_files(self, call: ModelCallConfig) -> EditedFiles:
        """Return a reader of edited files that may run after the turn and never asks people."""
        agent, task = self._agent, self._task
        runner = ToolRunner(
            self._toolbox,
            replace(task.permissions, approver=None),
            timeout_s=agent.settings.call_timeout_s,
            # Not the exposure of the turn, which contains all texts of the person.
            exposure=TaintState(task.exposure.taint),
            redactor=agent.redactor,
            limit_bytes=agent.settings.tools.output_limit_bytes,
        )
        runner.interceptor = call.hooks
        return EditedFiles(runner, task.environment)

    def _result(self, stopped: Stopping | None) -> Result:
        """Return the result; `stopped` is the reason if the model did not end the turn itself."""
        messages = self.settled()
        said_before = self._loop.earlier_messages if self._loop else []
        texts = [m.text.strip() for m in (*said_before, *messages) if m.role == "assistant"]
        text = "\n\n".join(filter(None, texts))
        if not text and stopped is None and _has_handed_over(messages, self._toolbox):
            text = t("Done.")
        signal, reason = find_signal(text)
        if (
            signal is None
            and stopped is None
            and self._loop is not None
            and self._loop.ends_with_question
        ):
            signal, reason = "DECIDE", load_prompt("asked")
        spent = self._loop.totals if self._loop else UsageTotals()
        return Result(
            success=bool(text) and stopped is None and signal != "BLOCKED",
            text=text or ("" if stopped or self.handoff else t(_SILENCE)),
            session_id=self._task.environment.session,
            messages=tuple(messages),
            usage=spent.usage,
            cost_usd=spent.cost_usd,
            signal=signal,
            signal_reason=reason,
            stopped=stopped,
            agent=self._task.environment.agent,
        )


def _without_answer(messages: Sequence[Message]) -> list[Message]:
    """Return the messages with a note in place of the last reply."""
    note = assistant(load_prompt("withheld"))
    last = max((n for n, message in enumerate(messages) if message.role == "assistant"), default=-1)
    return [note if n == last else message for n, message in enumerate(messages)]


def _has_handed_over(messages: Sequence[Message], toolbox: ToolRegistry) -> bool:
    """Return whether a file was sent to the person; the turn then needs no further text."""
    calls = (call for message in messages for call in message.tool_calls)
    sent = {call.id for call in calls if toolbox.traits(call.name).purpose == "delivery"}
    return any(message.tool_call_id in sent and not message.is_error for message in messages)


def _check_tool_choice(name: str | None, tools: Sequence[ToolSpec]) -> None:
    """Raise `ConfigError` if no tool has this name."""
    if any(tool.name == name for tool in tools):
        return
    names = ", ".join(tool.name for tool in tools)
    raise ConfigError(
        t("tool_choice: there is no tool {name!r}; available: {names}", name=name, names=names)
    )


def _first(own: T | None, general: T | None) -> T | None:
    return general if own is None else own
