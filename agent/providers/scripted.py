"""Models without a network: the bundled offline model, and scripts for tests."""

import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

from agent.errors import Rejected
from agent.events import (
    ModelEvent,
    Reply,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
)
from agent.prompts import render_prompt
from agent.providers.base import ModelRequest
from agent.providers.tool_calls import next_call_number, parse_tool_call
from agent.types import Context, Message, Thinking, Usage, assistant

_WORD = re.compile(r"\s*\S+\s*")
_COMMAND = re.compile(r"^\s*!tool\s+(\S+)[^\S\n]*(.*)$", re.MULTILINE)
_MAX_QUOTED_CHARS = 400

Step = Message | str | Exception | Callable[[ModelRequest], Message | str | Exception]


class EchoProvider:
    """Provider of `offline/echo`, a placeholder that says so and repeats its input.

    A line `!tool NAME {"argument": …}` in a user message makes it call that tool; several lines
    make several calls in one reply. It then quotes the results.
    """

    @property
    def name(self) -> str:
        return "offline"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for event in reply_events(request, _answer(request)):
            yield event

    async def aclose(self) -> None:
        """Do nothing; the provider has no connections."""


class ScriptedProvider:
    """Provider that returns scripted replies, one per request, and records its `requests`.

    An exception is raised in place of a reply; a function is called with the request. Raises
    `Rejected` at the end of the script.
    """

    def __init__(self, replies: Iterable[Step]) -> None:
        self.requests: list[ModelRequest] = []
        self.closed = False
        self._steps = deque(replies)

    @property
    def name(self) -> str:
        return "scripted"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.requests.append(request)
        if not self._steps:
            raise Rejected(f"the script ended after {len(self.requests) - 1} replies")
        step = self._steps.popleft()
        if not isinstance(step, Message | str | Exception):
            step = step(request)
        if isinstance(step, Exception):
            raise step
        for event in reply_events(request, assistant(step) if isinstance(step, str) else step):
            yield event

    async def aclose(self) -> None:
        self.closed = True


def reply_events(request: ModelRequest, message: Message) -> Iterator[ModelEvent]:
    """Yield the events of a reply that streams `message` by words; usage is characters / 4."""
    thinking = "".join(part.text for part in message.content if isinstance(part, Thinking))
    if thinking:
        yield ThinkingDelta(thinking, len(thinking))
        yield ThinkingEnd(thinking)
    for word in _WORD.findall(message.text) or ([message.text] if message.text else []):
        yield TextDelta(word)
    for call in message.tool_calls:
        yield ToolCallDelta(call.id, call.name, call.raw)
    reply_chars = (
        len(message.text) + len(thinking) + sum(len(call.raw) for call in message.tool_calls)
    )
    prompt_chars = len(request.system) + sum(len(item.text) for item in request.messages)
    reason = "tool_calls" if message.tool_calls else "stop"
    yield Reply(message, Usage(-(-prompt_chars // 4), -(-reply_chars // 4)), reason)


def _answer(request: ModelRequest) -> Message:
    results = _results(request)
    if results:
        quoted = "\n\n".join(_quote(result) for result in results)
        return assistant(render_prompt("offline_results", results=quoted))
    text = _last_words(request)
    number = next_call_number(request.messages)
    calls = tuple(
        parse_tool_call(f"call_{n}", name, raw.strip())
        for n, (name, raw) in enumerate(_COMMAND.findall(text), number)
    )
    if calls:
        return assistant("", calls)
    return assistant(render_prompt("offline", text=text or _context_text(request)))


def _last_words(request: ModelRequest) -> str:
    """Return the user's latest text, skipping messages without text, such as those from hooks."""
    for message in reversed(request.messages):
        if message.role != "user":
            return ""
        if message.text:
            return message.text
    return ""


def _context_text(request: ModelRequest) -> str:
    """Return the context that Kore added to the last message."""
    last = request.messages[-1:]
    return "\n\n".join(p.text for m in last for p in m.content if isinstance(p, Context))


def _results(request: ModelRequest) -> list[str]:
    """Return the tool results since the last reply, in order."""
    results: list[str] = []
    for message in reversed(request.messages):
        if message.role != "tool":
            break
        results.insert(0, message.text)
    return results


def _quote(text: str) -> str:
    excerpt = text if len(text) <= _MAX_QUOTED_CHARS else text[:_MAX_QUOTED_CHARS] + "…"
    return "\n".join(f"> {line}" for line in excerpt.splitlines() or [json.dumps(excerpt)])
