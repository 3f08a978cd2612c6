"""Journaled execution of the tool calls of one reply: reads in parallel, others in order."""

import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from agent import events
from agent.context.focused_files import FileFocus
from agent.context.history_validation import result_message
from agent.context.repeated_reads import shorten_reading
from agent.errors import KoreError
from agent.prompts import load_prompt, render_prompt
from agent.security.policy.base import AnswerPending
from agent.security.redaction import RedactionStream
from agent.tools.base import CallContext, ToolEnvironment
from agent.tools.file_views import StaleView, describe_stale_files
from agent.tools.runner import ToolRunner
from agent.tools.traits import ToolTraits
from agent.turn.event_stream import EventStream
from agent.turn.journal import TurnJournal
from agent.types import Message, ToolCall, ToolResult

if TYPE_CHECKING:
    from agent.turn.project_changes import TurnChanges


WARN_AT = (3, 5, 8)
STOP_AT = 12
# Long output is stored in a file with a new name each time, even if the output is the same.
_SPILLED = re.compile(r"\d{8}-\d{6}-[0-9a-f]+\.txt")

_Call = tuple[str, str]


class LoopGuard:
    """Counter of identical results per call since the last change.

    A change is a call with a different result than before, or the first success of a call that may
    change something. Twelve edits, each followed by a passing check, are thus progress. Other reads
    in between do not reset the count.
    """

    def __init__(self) -> None:
        self._results: dict[_Call, str] = {}
        self._counts: dict[_Call, int] = {}

    def check(
        self, call: ToolCall, result: ToolResult, *, may_change: bool
    ) -> Literal["fine", "warn", "stop"]:
        """Record a finished call and return the action; `may_change` is False for a read."""
        key = (call.name, call.raw)
        text = _SPILLED.sub("", result.for_model)
        earlier = self._results.get(key)
        if (may_change and earlier is None and not result.is_error) or earlier not in (None, text):
            self._counts.clear()
        self._results[key] = text
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if count >= STOP_AT:
            return "stop"
        return "warn" if count in WARN_AT else "fine"


# Calls in a row of tools that do not exist, after which the turn stops.
MAX_UNKNOWN_CALLS = 10

MAX_PARALLEL_READS = 8


class TurnAborted(KoreError):
    """The turn ended before the model was done."""

    def __init__(
        self, why: Literal["max_iterations", "loop", "filtered", "hook"], message: str
    ) -> None:
        super().__init__(message)
        self.why = why


class ToolExecutor:
    """Executor for tool calls.

    For the finished calls of the newest reply, `results` maps call ids to tool messages, and
    `closing` maps them to texts that end the turn. `has_sent_files` is True if a call of the turn
    has sent a file to the person.

    `recovered_results` are from before a restart, by call id: these calls of the first reply do not
    run again. Ids are unique within a reply only, because some vendors reuse them.
    """

    def __init__(
        self,
        runner: ToolRunner,
        environment: ToolEnvironment,
        progress: TurnJournal,
        outlet: EventStream,
        recovered_results: Mapping[str, ToolResult],
    ) -> None:
        self.results: dict[str, Message] = {}
        self.closing: dict[str, str] = {}
        # Returns whether the text of a skill is still in the model's context.
        self.holds_skill: Callable[[str], bool] = lambda _: False
        # Returns the messages in the model's context and the number of the first message.
        self.sent_messages: Callable[[], tuple[Sequence[Message], int]] = lambda: ((), 1)
        self.has_sent_files = False
        # Target agent of a handoff by the newest reply.
        self.handoff: str | None = None
        self._runner = runner
        self._environment = environment
        self._focus = FileFocus(runner.toolbox, environment.base)
        self._progress = progress
        self._outlet = outlet
        self._recovered_results = recovered_results
        # Set if the folder is watched; it also reports file changes.
        self.changes: TurnChanges | None = None
        self._guard = LoopGuard()
        self._unknown_calls = 0
        self._is_cut = self._is_resumed = False
        # Calls of the newest reply, by tool.
        self._same_calls: Counter[str] = Counter()

    async def execute(
        self, calls: Sequence[ToolCall], *, cut: bool = False, resumed: bool = False
    ) -> list[Message]:
        """Run the calls and return the tool messages in call order.

        `cut`: the reply reached its token limit, possibly within a call. `resumed`: the reply is
        from before a restart or a person's answer.

        Raise `TurnAborted` for a model that repeats itself, `AnswerPending` if a person will answer
        later.
        """
        self.results, self.closing = {}, {}
        self._same_calls = Counter(self._runner.toolbox.name(call.name) for call in calls)
        self._is_cut, self._is_resumed = cut, resumed
        await self._outlet.emit(events.State("executing"))
        for batch in _batches(calls, self._runner):
            if len(batch) == 1:
                await self._run(batch[0])
            else:
                await self._run_together(batch)
        await self._outlet.emit(events.State("observing"))
        self._recovered_results = {}
        return [self.results[call.id] for call in calls]

    def take(self, message: Message) -> None:
        """Record a message that arrived during the turn, so that calls may quote it."""
        self._runner.exposure.take(message)

    async def _run_together(self, batch: Sequence[ToolCall]) -> None:
        unanswered: list[AnswerPending] = []

        async def run(call: ToolCall) -> None:
            try:
                await self._run(call)
            except AnswerPending as exc:
                # Let the other calls of the batch finish, so that they need not run again.
                unanswered.append(exc)

        try:
            async with asyncio.TaskGroup() as group:
                for call in batch:
                    group.create_task(run(call))
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from several
        if unanswered:
            raise unanswered[0]

    async def _run(self, call: ToolCall) -> None:
        call = self._runner.toolbox.resolved(call)
        earlier_result = self._recovered_results.get(call.id)
        if earlier_result is not None:
            self._guard.check(call, earlier_result, may_change=self._may_change(call))
            self._keep(call, earlier_result)
            return
        began = time.monotonic()
        live = {"stdout": self._runner.redactor.stream(), "stderr": self._runner.redactor.stream()}
        started = False

        async def start() -> None:
            nonlocal started
            effect = self._runner.effect(call)
            await self._progress.start(call, effect)
            started = True
            await self._outlet.emit(started_event)
            if self.changes is not None and effect != "read":
                at_work.enter_context(self.changes.working(traits))

        # Emitted when the call starts, possibly much later if it waits for an answer.
        name, traits = self._runner.toolbox.name(call.name), self._runner.toolbox.traits(call.name)
        started_event = events.ToolStart(
            call.id, name, call.arguments or {}, traits.kind, traits.label, traits.quiet
        )
        context = self._context(call, live)
        if self._is_cut and call.arguments is None:
            result = ToolResult(load_prompt("call_cut"), is_error=True)
        else:
            with ExitStack() as at_work:
                result = context.changes.with_notes(await self._runner.run(context, start))
            reads_skill = traits.purpose == "skills" and not result.is_error
            if reads_skill and self.holds_skill(result.for_model):
                result = replace(result, for_model=load_prompt("skill_above"))
            if not result.is_error and not result.images:
                result = shorten_reading(call, result, *self.sent_messages(), self._focus.path_read)
        if result.handoff is not None and self.handoff is not None:
            result = ToolResult(load_prompt("handed_over_before"), is_error=True)
        self.handoff = self.handoff or result.handoff
        if not started:
            await self._outlet.emit(started_event)
        verdict = self._guard.check(call, result, may_change=self._may_change(call))
        if verdict != "fine":
            result = replace(result, for_model=f"{result.for_model}\n\n{load_prompt('repeated')}")
        diffs = [artifact.path for artifact in result.artifacts if artifact.kind == "diff"]
        touched = [*diffs, *context.changes.changed_paths]
        # Record the result before it is stored, so that a stop in between does not lose it.
        self._keep(call, result)
        # In a thread, so that a slow disk blocks only this call.
        if stale := await asyncio.to_thread(self._runner.views.take_stale_views, context.session):
            result = _with_news(result, stale)
            self._keep(call, result)
        await self._progress.finish(call, result)
        await self.emit_file_changes(touched, stale)
        await self._outlet.emit(_resulted(call.id, name, traits, result, time.monotonic() - began))
        if verdict == "stop":
            raise TurnAborted("loop", render_prompt("stopped_loop", tool=call.name))
        self._count_unknown(call)

    def _count_unknown(self, call: ToolCall) -> None:
        """Raise `TurnAborted` after too many calls of tools that do not exist."""
        is_known = self._runner.toolbox.find(call.name) is not None
        self._unknown_calls = 0 if is_known else self._unknown_calls + 1
        if self._unknown_calls >= MAX_UNKNOWN_CALLS:
            raise TurnAborted("loop", render_prompt("stopped_unknown", n=MAX_UNKNOWN_CALLS))

    def _keep(self, call: ToolCall, result: ToolResult) -> None:
        message = self.results[call.id] = result_message(call.id, result)
        if result.ends_with is not None:
            self.closing[call.id] = result.ends_with
        if any(artifact.kind == "file" for artifact in result.artifacts):
            self.has_sent_files = True
        self._runner.exposure.take(message)

    def _may_change(self, call: ToolCall) -> bool:
        return self._runner.effect(call) != "read"

    def _context(self, call: ToolCall, live: Mapping[str, RedactionStream]) -> CallContext:
        def output(text: str, stream: Literal["stdout", "stderr"]) -> None:
            # Text still buffered in the redactor at the end is part of the result.
            if text := live[stream].feed(text):
                self._outlet.offer(events.ToolOutput(call.id, text, stream))

        here = self._environment
        return CallContext(
            call=call,
            environment=here,
            output=output,
            taint=self._runner.exposure.taint,
            redactor=self._runner.redactor,
            changes=here.recording.recorder(here.session, call.id, call.name, here.workspace),
            tell=self._outlet.emit,
            resumed=self._is_resumed,
            same_calls=self._same_calls[self._runner.toolbox.name(call.name)],
        )

    async def emit_file_changes(self, touched: Sequence[str], stale: Sequence[StaleView]) -> None:
        """Emit events for files that a call changed and for views that are out of date."""
        paths = list(dict.fromkeys(touched))
        if self.changes is not None and paths:
            paths = await self.changes.unreported(paths)
        for path in paths:
            await self._outlet.emit(events.FileChanged(path, "tool"))
        for stale_view in stale:
            if (path := str(stale_view.path)) not in touched and await self._is_unreported(path):
                await self._outlet.emit(events.FileChanged(path, stale_view.by))
            await self._outlet.emit(events.ContextInvalidated(path, (self._runner.agent,)))

    async def _is_unreported(self, path: str) -> bool:
        return self.changes is None or bool(await self.changes.unreported([path]))


def _resulted(
    id_: str, name: str, traits: ToolTraits, result: ToolResult, elapsed_s: float
) -> events.ToolResulted:
    diffs = [artifact.content for artifact in result.artifacts if artifact.kind == "diff"]
    return events.ToolResulted(
        id_,
        name,
        result.for_user if result.for_user is not None else result.for_model,
        result.is_error,
        round(elapsed_s, 3),
        "\n".join(diffs) or None,
        result.cut_bytes,
        result.file,
        traits.kind,
        result.is_denied,
    )


def _with_news(result: ToolResult, stale: Sequence[StaleView]) -> ToolResult:
    """Return the result with a note for the model on files that changed since it saw them."""
    for_user = result.for_model if result.for_user is None else result.for_user
    for_model = (
        f"{result.for_model}\n\n[{describe_stale_files([stale_view.path for stale_view in stale])}]"
    )
    return replace(result, for_model=for_model, for_user=for_user)


def _batches(calls: Sequence[ToolCall], runner: ToolRunner) -> Iterator[list[ToolCall]]:
    """Yield neighbouring reads in batches and every other call alone."""
    reads: list[ToolCall] = []
    for call in calls:
        is_read = runner.effect(call) == "read"
        if reads and (not is_read or len(reads) == MAX_PARALLEL_READS):
            yield reads
            reads = []
        if is_read:
            reads.append(call)
        else:
            yield [call]
    if reads:
        yield reads
