"""Agent loop of one turn: call the model, run the tools, observe the results, check for the end."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, cast

from agent import events
from agent.context.call_meter import CallMeter
from agent.context.compaction.compactor import Conversation
from agent.context.history_validation import (
    close_unanswered_calls,
    unanswered_calls,
    with_unique_call_ids,
)
from agent.context.request_window import RequestWindow
from agent.errors import BadReply, ContextTooLong, Rejected
from agent.events import CUT, FILTERED, REPEATING
from agent.i18n import mark_for_translation, t
from agent.prompts import render_prompt
from agent.providers.base import ModelRequest, Provider, ToolSpec
from agent.providers.effort import EFFORT
from agent.providers.model_settings import is_forced
from agent.providers.optional_parts import is_unexplained
from agent.providers.usage import Tariff, UsageMeter, UsageTotals
from agent.records import frozen
from agent.security.redaction import Redactor
from agent.security.taint.taint import TaintState
from agent.turn.completion_signal import find_signal
from agent.turn.event_stream import EventStream
from agent.turn.journal import Interrupts, SteeringSource, TurnJournal
from agent.turn.output_redactor import OutputRedactor
from agent.turn.tool_executor import ToolExecutor, TurnAborted
from agent.types import Context, Message, ReasoningEffort, assistant

if TYPE_CHECKING:
    from agent.turn.hook_chain import HookChain
    from agent.turn.hooks import HookWords, PromptExpansion
    from agent.turn.output_links import OutputLinks
    from agent.turn.tracing import TurnTracing

_MAX_SHRINKS = 5
# Limit for refusals that do not mention the conversation's length.
_SUSPECTED_SHRINKS = 2
# Limit on the times that hooks may prevent the end of a turn.
_MAX_OBJECTIONS = 5
_FILTERED = mark_for_translation(
    "⚠️ The model's content filter cut this answer off, so it is incomplete. Rephrase "
    "the question or try another model."
)


class _Interrupted(Exception):
    """A new message arrived before the model finished its reply."""


@frozen
class ModelCallConfig:
    """Parameters of model requests that are constant during a turn.

    A `tool_choice` in `options` that forces a call applies until the first call. `redactor` cleans
    the model's output. `exposure` decides which links the output may contain; without it, links are
    unchanged. `cache_key` is that of `ModelRequest`.
    """

    provider: Provider
    model: str
    system: str
    tools: Sequence[ToolSpec]
    temperature: float | None = None
    max_tokens: int | None = None
    effort: ReasoningEffort | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    hooks: "HookChain | None" = None
    tracing: "TurnTracing | None" = None
    redactor: Redactor = field(default_factory=Redactor)
    exposure: TaintState | None = None
    tariff: Tariff | None = None
    fallback_tariffs: Sequence[Tariff] = ()
    cache_key: str | None = None

    def request_options(self, *, has_called: bool) -> dict[str, Any]:
        options = dict(self.options)
        if self.effort is not None:
            options[EFFORT] = self.effort
        if has_called and is_forced(options.get("tool_choice")):
            # If every request forced a call, the turn would never end.
            del options["tool_choice"]
        return options


class AgentLoop:
    """State and loop of one turn. `settled` is valid at any time, also after a cancellation."""

    def __init__(
        self,
        call: ModelCallConfig,
        view: RequestWindow,
        executor: ToolExecutor,
        progress: TurnJournal,
        outlet: EventStream,
        meter: UsageMeter | None = None,
    ) -> None:
        self._call = call
        self._view = view
        self._conversation = conversation = view.conversation
        self._executor = executor
        self._progress = progress
        # Checked once: an isinstance check against a protocol costs as much as twenty calls.
        self._steering = progress if isinstance(progress, SteeringSource) else None
        self._interrupts = progress if isinstance(progress, Interrupts) else None
        self._outlet = outlet
        tariff = call.tariff or Tariff(f"{call.provider.name}/{call.model}")
        self._call_meter = CallMeter(tariff, call.fallback_tariffs, meter)
        self.earlier_messages = _earlier_messages(conversation)
        # Before a handoff, another agent may already have replied to the person.
        self._said_before = self.earlier_messages or _since_user(conversation.messages)
        self._new: list[Message] = []
        self._partial: list[str] = []
        self._voided: list[str] = []
        self._is_cut = False
        # True if a hook supplied the newest reply without a model call.
        self._is_from_hook = False
        self._objections = 0
        # Target agent of a handoff by a tool.
        self.handoff: str | None = None
        # True if a tool ended the turn with a question.
        self.ends_with_question = False

    async def run(self, max_iterations: int) -> None:
        """Run until the model is done. Raise `ProviderError` or `TurnAborted`.

        A resumed turn continues its iteration count: neither waiting nor a restart grants more
        iterations.
        """
        begun = sum(message.role == "assistant" for message in self.earlier_messages)
        await self._execute(resumed=True)
        self._check_hooks()
        if self.ends_with_question:
            return
        for n in range(begun + 1, max_iterations + 1):
            await self._collect_steering()
            await self._outlet.emit(events.IterationStart(n, max_iterations))
            reply = await self._plan()
            await self._execute()
            self._check_hooks()
            await self._outlet.emit(events.State("reflecting"))
            is_over = self.ends_with_question or self.handoff is not None
            if is_over or not reply.tool_calls or find_signal(reply.text)[0]:
                if not is_over and await self._is_sent_on(reply):
                    continue
                await self._outlet.emit(events.State("done"))
                return
        raise TurnAborted("max_iterations", render_prompt("max_iterations", n=max_iterations))

    async def hooks_begin(
        self, prompt: str, expansions: "Sequence[PromptExpansion]", *, is_new_session: bool
    ) -> "HookWords":
        """Return the answers of hooks before the first reply."""
        assert self._call.hooks is not None, "asked only where there are hooks"
        return await self._call.hooks.begin(
            prompt, is_new_session=is_new_session, expansions=expansions
        )

    async def add_words_of_hook(self, words: "HookWords", behind: Sequence[Message] = ()) -> None:
        """Append text of hooks after the messages in `behind`.

        The messages are stored before the model reads them.
        """
        text = render_prompt("hook_words", text=self._call.redactor.clean(words.text))
        message = Message("user", (Context(text),), taint=words.taint)
        await self._progress.add([*behind, message])
        self._add([message])
        self._executor.take(message)

    async def _is_sent_on(self, reply: Message) -> bool:
        """Append the text of hooks, if any, and return whether the model must continue."""
        if self._call.hooks is None or self._objections >= _MAX_OBJECTIONS:
            return False
        words = await self._call.hooks.before_end(reply, is_again=self._objections > 0)
        if words.refusal is not None or not words.text:
            return False
        self._objections += 1
        # Without calls, the reply would otherwise be stored only at the end of the turn.
        await self.add_words_of_hook(words, () if reply.tool_calls else (reply,))
        return True

    def _check_hooks(self) -> None:
        """Raise `TurnAborted` if a hook of a call ends the turn."""
        if self._call.hooks is not None and (reason := self._call.hooks.end_reason) is not None:
            why = self._call.redactor.clean(reason)
            raise TurnAborted("hook", t("A hook ended this turn: {why}", why=why))

    @property
    def totals(self) -> UsageTotals:
        return self._call_meter.totals

    def settled(self) -> list[Message]:
        """Return the valid new messages of the turn.

        They include the partial text of an unfinished reply and a result for every call.
        """
        messages = list(self._new)
        open_ended = close_unanswered_calls(self._conversation.messages, self._executor.results)
        messages += open_ended
        if self._partial:
            messages.append(assistant("".join(self._partial)))
        return messages

    async def _collect_steering(self) -> None:
        """Append messages that people sent during the turn, for the next model call."""
        if self._steering is not None:
            await self._add_steering(await self._steering.take_new_messages())

    async def _add_steering(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._add([message])
            self._executor.take(message)
            if message.text:
                await self._outlet.emit(events.Steered(message.text))

    async def _plan(self) -> Message:
        """Call the model; journal its reply before any of its calls runs."""
        await self._outlet.emit(events.State("planning"))
        try:
            reply = await self._ask_and_count()
            # After a file was sent, an empty reply is a valid answer.
            if _is_empty(reply) and not self._executor.has_sent_files:
                why = t("the model returned an empty reply")
                await self._outlet.emit(events.Retry(why, 1, 1, 0.0))
                reply = await self._ask_and_count()
        finally:
            await self._call_meter.count_partial()
        await self._outlet.emit(events.StreamEnd(reply.finish_reason))
        self._is_cut = reply.finish_reason in CUT
        if self._is_cut:
            text = t("The answer reached the model's length limit and was cut off.")
            if reply.finish_reason == REPEATING:
                text = t("The model repeated itself without end, so its answer was cut off.")
            await self._outlet.emit(events.Notice("warning", text, text))
        # Add the reply before it is stored, so that a stop during the write finds it.
        self._partial = []
        message = with_unique_call_ids(reply.message)
        self._add([message])
        await self._progress.reply(message)
        if reply.finish_reason == FILTERED:
            # Its calls may be incomplete as well, so none of them runs.
            raise TurnAborted("filtered", t(_FILTERED))
        return message

    async def _ask_and_count(self) -> events.Reply:
        self._is_from_hook = False
        reply = await self._ask_uninterrupted()
        if self._is_from_hook:
            return reply
        if not reply.rank:
            self._view.learn(reply.usage)
        for event in await self._call_meter.record_reply(reply):
            await self._outlet.emit(event)
        return reply

    async def _ask_uninterrupted(self) -> events.Reply:
        while True:
            try:
                return await self._ask_within_window()
            except _Interrupted:
                self._void()
                await self._call_meter.count_partial()
                why = t("a new message arrived")
                await self._outlet.emit(events.Retry(why, 1, 1, 0.0))

    async def _ask_within_window(self) -> events.Reply:
        for _ in range(_MAX_SHRINKS):
            try:
                return await self._ask()
            except ContextTooLong:
                if not self._view.shrink():
                    raise
            except Rejected as exc:
                if not is_unexplained(exc):
                    raise
                return await self._ask_with_less(exc)
        return await self._ask()

    async def _ask_with_less(self, refusal: Rejected) -> events.Reply:
        """Retry with half of a long conversation and raise the first refusal if that fails.

        Servers use different error messages for a full window.
        """
        for _ in range(_SUSPECTED_SHRINKS):
            if not self._view.may_be_full or not self._view.shrink():
                break
            try:
                return await self._ask()
            except (ContextTooLong, Rejected):
                continue
        self._view.restore()
        raise refusal

    async def _ask(self) -> events.Reply:
        if self._partial:
            self._void()
        request = await self._request()
        if self._call.hooks is not None:
            change = await self._call.hooks.before_model(request)
            if isinstance(change, Message):
                return await self._reply_of_hook(events.Reply(change, finish_reason="stop"))
            request = change
        if self._call.tracing is None:
            return await self._stream_reply(request)
        with self._call.tracing.chat(self._call.provider.name, request) as end:
            reply = await self._stream_reply(request)
            end(reply)
            return reply

    async def _stream_reply(self, request: ModelRequest) -> events.Reply:
        least = (self._view.request_tokens, request.max_tokens or 0)
        for notice in await self._call_meter.check_call(*least):
            await self._outlet.emit(notice)
        stream = self._call.provider.stream(request)
        interrupts = self._interrupts
        redactor, links = OutputRedactor(self._call.redactor), self._links()
        # Providers are async generators; closing them ends the connection at once.
        async with aclosing(cast(AsyncGenerator[events.ModelEvent], stream)):
            async for model_event in stream:
                self._call_meter.count_event(model_event)
                if interrupts is not None and (messages := await interrupts.interrupted()):
                    await self._add_steering(messages)
                    raise _Interrupted
                cleaned: Iterable[events.ModelEvent] = redactor.clean(model_event)
                for event in cleaned if links is None else await links.clean(cleaned):
                    match event:
                        case events.Reply():
                            if event.voids_text:
                                await self._show_again(event.message)
                            return await self._hooked(request, event)
                        case events.TextDelta(text):
                            self._partial.append(text)
                        case events.Retry(rank=rank):
                            self._void()
                            await self._call_meter.count_partial()
                            # The stream is suspended until its next item is requested, so the retry
                            # is not sent yet.
                            for notice in await self._call_meter.check_retry(rank):
                                await self._outlet.emit(notice)
                    await self._outlet.emit(event)
        raise BadReply(t("the model returned no reply"))

    async def _show_again(self, message: Message) -> None:
        """Void the streamed text and show the message instead."""
        self._void()
        await self._outlet.emit(events.Retry(t("the reply began with thoughts"), 1, 1, 0.0))
        self._partial = [message.text]
        if message.text:
            await self._outlet.emit(events.TextDelta(message.text))

    async def _hooked(self, request: ModelRequest, reply: events.Reply) -> events.Reply:
        """Return the reply after the application's hooks."""
        if self._call.hooks is None:
            return reply
        message = await self._call.hooks.after_model(request, reply.message)
        if message is reply.message:
            return reply
        self._void()
        await self._outlet.emit(events.Retry(t("a hook replaced the reply"), 1, 1, 0.0))
        return await self._show(replace(reply, message=message))

    def _void(self) -> None:
        """Discard the streamed text of a reply. Some screens still show it."""
        self._voided.append("".join(self._partial))
        self._partial = []

    async def _reply_of_hook(self, reply: events.Reply) -> events.Reply:
        self._is_from_hook = True
        return await self._show(reply)

    async def _show(self, reply: events.Reply) -> events.Reply:
        links = self._links()
        message = reply.message if links is None else await links.clean_message(reply.message)
        self._partial = [message.text]
        if message.text:
            await self._outlet.emit(events.TextDelta(message.text))
        return replace(reply, message=message)

    def _links(self) -> "OutputLinks | None":
        """Return the link filter for the next reply, or None if links cannot leak anything."""
        exposure = self._call.exposure
        if exposure is None or not exposure.is_dangerous:
            return None
        from agent.turn.output_links import OutputLinks

        messages = (*self._said_before, *self._new)
        texts = [message.text for message in messages if message.role == "assistant"]
        return OutputLinks(exposure, filter(None, (*texts, *self._voided)))

    async def _request(self) -> ModelRequest:
        call = self._call
        window, window_events = await self._view.window()
        for event in window_events:
            await self._outlet.emit(event)
        return ModelRequest(
            call.model,
            call.system,
            window.messages,
            call.tools,
            call.temperature,
            call.max_tokens,
            self._call.request_options(has_called=any(message.tool_calls for message in self._new)),
            cache_key=call.cache_key,
        )

    async def _execute(self, *, resumed: bool = False) -> None:
        calls = unanswered_calls(self._conversation.messages)
        if not calls:
            return
        self._executor.holds_skill = self._view.holds_skill
        self._executor.sent_messages = self._view.sent_messages
        self._add(await self._executor.execute(calls, cut=self._is_cut, resumed=resumed))
        self.handoff = self._executor.handoff
        closing = self._executor.closing
        if words := "\n\n".join(closing[call.id] for call in calls if call.id in closing):
            await self._close(words)

    async def _close(self, words: str) -> None:
        """End the turn with the text of a tool as the last reply."""
        self.ends_with_question = True
        if (links := self._links()) is not None:
            words = await links.clean_text(words)
        reply = assistant(words)
        self._add([reply])
        await self._progress.reply(reply)
        # The reply that called the tool may have begun with text.
        gap = "" if words.startswith("\n\n") else "\n\n"
        await self._outlet.emit(events.TextDelta(f"{gap}{words}"))

    def _add(self, messages: Sequence[Message]) -> None:
        self._new.extend(messages)
        self._conversation.messages.extend(messages)


def _is_empty(reply: events.Reply) -> bool:
    """Return whether the model ended its reply with neither text nor calls."""
    message, is_ended = reply.message, reply.finish_reason in (None, "stop")
    return not message.tool_calls and not message.text.strip() and is_ended


def _earlier_messages(conversation: Conversation) -> list[Message]:
    messages, begun = conversation.messages, conversation.turn_message_count
    if begun is not None:
        return list(messages[max(len(messages) - begun, 0) :])
    return _since_user(messages)


def _since_user(messages: Sequence[Message]) -> list[Message]:
    return list(takewhile(lambda message: message.role != "user", reversed(messages)))[::-1]
