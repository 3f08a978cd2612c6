"""Builder of replies from Ollama's lines.

Lines: https://docs.ollama.com/api/chat
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from agent.errors import Unavailable
from agent.events import ModelEvent, Reply, ToolCallDelta
from agent.i18n import t
from agent.providers.http.json_stream import JsonObject
from agent.providers.text_stream import TextStream
from agent.providers.tool_calls import parse_tool_call
from agent.providers.wire_text import count_of, replace_lone_surrogates, text_of
from agent.types import Message, Part, Text, Thinking, ToolCall, Usage


class OllamaResponseBuilder:
    """Converter of Ollama's stream lines to model events.

    `number` returns the first number for ids: older versions of Ollama send none.
    """

    def __init__(self, number: Callable[[], int]) -> None:
        self.finish_reason: str | None = None
        self._number = number
        self._speech = TextStream()
        self._calls: list[ToolCall] = []
        self._usage: Usage | None = None

    def add(self, payload: JsonObject) -> Iterator[ModelEvent]:
        message = payload.get("message")
        if isinstance(message, dict):
            yield from self._speech.add_thinking(text_of(message.get("thinking")))
            yield from self._speech.add_text(text_of(message.get("content")))
            calls = message.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                yield from self._call(call)
        if payload.get("done") is True:
            prompt_tokens, reply_tokens = (
                payload.get(f"{kind}eval_count") for kind in ("prompt_", "")
            )
            if prompt_tokens is not None or reply_tokens is not None:
                self._usage = Usage(count_of(prompt_tokens), count_of(reply_tokens))
            reason = text_of(payload.get("done_reason")) or "stop"
            self.finish_reason = "tool_calls" if self._calls and reason == "stop" else reason

    def finish(self, *, done: bool) -> Iterator[ModelEvent]:
        """Yield the last events and the `Reply`. Raises `Unavailable` for a cut stream."""
        if self.finish_reason is None:
            raise Unavailable(t("the model's reply was cut off"))
        if self.finish_reason == "load":
            raise Unavailable(t("Ollama loaded the model but returned nothing"))
        yield from self._speech.pause()
        self._speech.take_unopened_thoughts()
        content: list[Part] = []
        if self._speech.thinking:
            content.append(Thinking(self._speech.thinking))
        if self._speech.text:
            content.append(Text(self._speech.text))
        message = Message("assistant", tuple(content), tuple(self._calls))
        yield Reply(message, self._usage, self.finish_reason, voids_text=self._speech.voids_text)

    def _call(self, data: Any) -> Iterator[ModelEvent]:
        function = data.get("function") if isinstance(data, dict) else None
        if not isinstance(function, dict):
            return
        yield from self._speech.pause()
        used_ids = {call.id for call in self._calls}
        call_id = replace_lone_surrogates(text_of(data.get("id")))
        if not call_id or call_id in used_ids:
            number = self._number()
            while (call_id := f"call_{number}") in used_ids:
                number += 1
        arguments = function.get("arguments")
        raw = arguments if isinstance(arguments, str) else _dump(arguments)
        call = parse_tool_call(
            call_id,
            replace_lone_surrogates(text_of(function.get("name"))),
            replace_lone_surrogates(raw),
        )
        self._calls.append(call)
        yield ToolCallDelta(call.id, call.name, call.raw)


def _dump(arguments: object) -> str:
    if arguments is None:
        return ""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
