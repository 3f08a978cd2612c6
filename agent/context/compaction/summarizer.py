"""Summaries of dropped messages, written by a model."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, cast

from agent import events
from agent.context.call_meter import CallMeter
from agent.context.compaction.person_words import fit_words, words_limit, words_of
from agent.context.edited_files import AttachedFile
from agent.context.request_prefix import RequestPrefix
from agent.context.token_budget import level, middle_out
from agent.errors import BadReply, ConfigError, ContextTooLong, Rejected, TimedOut
from agent.i18n import t
from agent.prompts import load_prompt, render_prompt
from agent.providers.base import ModelRequest
from agent.providers.pool import ModelPool, OpenModel
from agent.providers.token_estimate import estimate_all, estimate_text
from agent.providers.usage import Tariff, UsageMeter
from agent.records import frozen
from agent.security.redaction import Redactor
from agent.types import Message, Taint, user

log = logging.getLogger(__name__)


@frozen
class Summary:
    """Summary of the older part of a conversation.

    `text` describes the events; `words` quote the person's messages, oldest first; `todo` is the
    model's todo list unless a remaining message contains it; `files` are the last edited files.
    `taint` is the taint of the conversation: a summary does not remove it.
    """

    text: str
    words: tuple[str, ...] = ()
    todo: str = ""
    taint: frozenset[Taint] = frozenset()
    files: tuple[AttachedFile, ...] = ()

    @property
    def front(self) -> str:
        """Text of the summary for the model, before the remaining messages."""
        text = render_prompt("summary_front", summary=self.text)
        if self.todo:
            text = f"{text}\n\n{render_prompt('summary_todo', todo=self.todo)}"
        if self.files:
            files = "\n".join(f"== {file.path}\n{file.text}" for file in self.files)
            text = f"{text}\n\n{render_prompt('summary_files', files=files)}"
        if self.words:
            words = render_prompt("summary_words", words="\n---\n".join(self.words))
            text = f"{words}\n\n{text}"
        return f"{text}\n{load_prompt('summary_untrusted')}" if "untrusted" in self.taint else text


def summary_to_json(summary: Summary) -> dict[str, Any]:
    """Return the summary as a JSON object, without its taint."""
    return {
        "text": summary.text,
        "words": list(summary.words),
        "todo": summary.todo,
        "files": [asdict(file) for file in summary.files],
    }


def summary_from_json(data: Mapping[str, Any], taint: frozenset[Taint]) -> Summary:
    """Return the summary in a JSON object. Raise KeyError if the object is not a summary."""
    files = tuple(AttachedFile(file["path"], file["text"]) for file in data["files"])
    return Summary(data["text"], tuple(data["words"]), data["todo"], taint, files)


# Token limit for a summary; the prompt asks for fewer.
MAX_SUMMARY_TOKENS = 4_000

_MIN_TOKENS = 100

_REPLY_TOKENS = 8_000

_MAX_TRIES = 3

_TIMEOUT_S = 180.0

# Share of the model's window: estimates are imprecise, and prompt and reply need room, too.
_SHARE = 0.6


def summary_limit(goal: int) -> int:
    """Return the token limit for the summary in a conversation of `goal` tokens."""
    return max(min(MAX_SUMMARY_TOKENS, goal // 4), _MIN_TOKENS)


@frozen
class DroppedMessages:
    """Input of a summary: dropped messages and the summary of the messages before them.

    `focus` is what a person asked to preserve, `taint` is the taint of the conversation, and `goal`
    is the target size of the conversation in tokens. `on_request`: a person asked for a summary.
    `visible` is the conversation as in its requests (dropped and newest messages), if it fits the
    window.
    """

    messages: Sequence[Message]
    before: Summary | None = None
    focus: str = ""
    taint: frozenset[Taint] = frozenset()
    goal: int = 50_000
    on_request: bool = False
    visible: Sequence[Message] | None = None


@frozen
class Summariser:
    """Summarizer with redacted input and output.

    It appends a message to the conversation and asks the conversation's own model, which has the
    rest in its cache. If that is impossible, it sends a transcript to the model of the profile
    "quick".
    """

    models: ModelPool
    redactor: Redactor
    prefix: RequestPrefix | None = None

    async def summarise(self, leaving: DroppedMessages, meter: UsageMeter) -> Summary:
        """Return the summary. Raise `ProviderError`, `LimitReached` or `ConfigError`."""
        if self.prefix is not None and leaving.visible:
            try:
                return await self._continue(self.prefix, leaving.visible, leaving, meter)
            except (ContextTooLong, BadReply, Rejected, ConfigError):
                log.info("the conversation's own request gave no summary", exc_info=True)
        return await self._retell(leaving, meter)

    async def _continue(
        self,
        prefix: RequestPrefix,
        visible: Sequence[Message],
        leaving: DroppedMessages,
        meter: UsageMeter,
    ) -> Summary:
        focus = render_prompt("summarise_focus", focus=leaving.focus) if leaving.focus else ""
        now = render_prompt("summarise_now", focus=focus, words=_words(leaving.goal))
        words = f"{load_prompt('summarise_here')}\n\n{load_prompt('summarise')}\n{now}"
        request = await prefix.request(visible, self.redactor.clean(words))
        return await self._request_summary(self.models.open(prefix.model), request, leaving, meter)

    async def _retell(self, leaving: DroppedMessages, meter: UsageMeter) -> Summary:
        model = self.models.open(self.models.profile("quick"))
        room = int(model.window_tokens * _SHARE)
        for _ in range(_MAX_TRIES - 1):
            try:
                request = self._request(model, leaving, room)
                return await self._request_summary(model, request, leaving, meter)
            except ContextTooLong:
                room //= 2
        request = self._request(model, leaving, room)
        return await self._request_summary(model, request, leaving, meter)

    async def _request_summary(
        self, model: OpenModel, request: ModelRequest, leaving: DroppedMessages, meter: UsageMeter
    ) -> Summary:
        try:
            async with asyncio.timeout(max(_TIMEOUT_S, model.patience_s)):
                reply = await ask_model(model, request, meter)
        except TimeoutError as exc:
            raise TimedOut(t("the summary timed out")) from exc
        text = self.redactor.clean(reply.text.strip())
        if not text:
            raise BadReply(t("the model returned no summary"))
        text = middle_out(text, summary_limit(leaving.goal))
        return self.with_words(text, leaving)

    def with_words(self, text: str, leaving: DroppedMessages) -> Summary:
        """Return a summary with this text and people's earlier and newly dropped messages."""
        before = leaving.before or Summary("")
        taint = before.taint.union(leaving.taint, *(message.taint for message in leaving.messages))
        new = [self.redactor.clean(text) for text in words_of(leaving.messages)]
        words = fit_words([*before.words, *new], words_limit(leaving.goal))
        return Summary(text, words, taint=taint)

    def _request(self, model: OpenModel, leaving: DroppedMessages, room: int) -> ModelRequest:
        before = focus = ""
        if leaving.before is not None:
            before = render_prompt("summarise_before", summary=leaving.before.text) + "\n\n"
        if leaving.focus:
            focus = render_prompt("summarise_focus", focus=leaving.focus) + "\n\n"
        system = load_prompt("summarise")
        used_tokens = estimate_text(system) + estimate_text(before) + estimate_text(focus)
        text = transcript(leaving.messages, max(room - used_tokens, 200))
        prompt = render_prompt(
            "summarise_request",
            before=before,
            focus=focus,
            transcript=text,
            words=_words(leaving.goal),
        )
        return ModelRequest(
            model.model,
            system,
            [user(self.redactor.clean(prompt))],
            temperature=model.temperature,
            max_tokens=min(model.max_tokens or _REPLY_TOKENS, model.window_tokens // 5),
        )


def _words(goal: int) -> int:
    """Return the word count to ask for in the prompt."""
    return summary_limit(goal) * 3 // 5


async def ask_model(model: OpenModel, request: ModelRequest, meter: UsageMeter) -> Message:
    """Return the model's reply; its usage is recorded."""
    tariff = model.tariff or Tariff(f"{model.provider.name}/{model.model}")
    till = CallMeter(tariff, model.fallback_tariffs, meter)
    tokens = estimate_text(request.system) + estimate_all(request.messages)
    await till.check_call(tokens, 0)
    stream = cast(AsyncGenerator[events.ModelEvent], model.provider.stream(request))
    try:
        async with aclosing(stream):
            async for event in stream:
                till.count_event(event)
                match event:
                    case events.Reply():
                        await till.record_reply(event)
                        return event.message
                    case events.Retry(rank=rank):
                        await till.count_partial()
                        await till.check_retry(rank)
    finally:
        await till.count_partial()
    raise BadReply(t("the model returned no reply"))


def transcript(messages: Sequence[Message], room: int) -> str:
    """Return the messages as text of about `room` tokens; the middle of the longest is omitted."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    entries = [_describe(message, names) for message in messages]
    heads = sum(estimate_text(head) for head, _ in entries)
    cap = level([estimate_text(text) for _, text in entries], max(room - heads, 0))
    return "\n\n".join(f"{head}\n{middle_out(text, cap)}".strip() for head, text in entries)


def _describe(message: Message, names: dict[str, str]) -> tuple[str, str]:
    """Return a heading and the text below it."""
    if message.role == "tool":
        failed = " (failed)" if message.is_error else ""
        return f"[{names.get(message.tool_call_id or '', 'tool')} gave{failed}]", message.text
    text = message.text
    for call in message.tool_calls:
        text += f"\n(calls {call.name} {call.raw})"
    return "[Person]" if message.role == "user" else "[Assistant]", text
