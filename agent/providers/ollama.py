"""Provider for Ollama's own API, with its window size, thinking and errors."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

from agent.errors import Unavailable
from agent.events import ModelEvent, Reply, ToolCallDelta
from agent.i18n import t
from agent.prompts import load_prompt
from agent.providers.base import ModelRequest
from agent.providers.effort import EFFORT, nearest_effort
from agent.providers.http.json_stream import JsonObject, NdjsonParser
from agent.providers.http.streaming_client import StreamingClient
from agent.providers.http.transport import AiohttpTransport, Deadlines, Endpoint, Transport
from agent.providers.model_settings import UnsupportedSettings, schema_in
from agent.providers.text_stream import TextStream
from agent.providers.tool_calls import next_call_number, parse_tool_call
from agent.providers.wire_text import (
    RequestHeadCache,
    count_of,
    encode_json,
    function_of,
    sendable_tool_name,
    text_of,
    text_with_context,
    without_omitted,
)
from agent.text.visible import replace_lone_surrogates
from agent.types import Image, Message, Part, ReasoningEffort, Text, Thinking, ToolCall, Usage

# Body: https://docs.ollama.com/api/chat
_KEY = "ollama"
# Fields of the body itself; every other setting is an option of the model.
_FIELDS = frozenset({"format", "keep_alive", "logprobs", "think", "top_logprobs"})
# Settings without a field in this API; `tool_choice` "none" leaves out the tools instead.
UNSUPPORTED = frozenset({"parallel_tool_calls", "tool_choice", "verbosity"})
# Without `num_ctx`, Ollama silently cuts off the beginning of the conversation.
_REQUIRED = frozenset({"model", "num_ctx", "options", "stream"})
_LEVELS: tuple[ReasoningEffort, ...] = ("low", "medium", "high")


class OllamaRequestEncoder:
    """Encoder of request bodies; `context_tokens` is the window that Ollama opens.

    Ollama silently cuts off the beginning of a conversation that exceeds its window, so each
    request states the size that Kore assumes.
    """

    def __init__(self, context_tokens: int | None) -> None:
        self._context_tokens = context_tokens
        self._heads = RequestHeadCache(self._head)

    def optional_fields(self, request: ModelRequest) -> set[str]:
        """Return the names of the optional fields of the body and options of the model."""
        fields = self._fields(request)
        options = fields["options"]
        return {*fields, *(options if isinstance(options, dict) else ())} - _REQUIRED

    def body(self, request: ModelRequest) -> bytes:
        """Return the request as compact UTF-8 JSON."""
        head = self._heads.of(request)
        comma = b"," if request.messages and not head.endswith(b"[") else b""
        return b"".join((head, comma, b",".join(_encode_messages(request.messages)), b"]}"))

    def _head(self, request: ModelRequest) -> bytes:
        head = encode_json(self._fields(request))[:-1] + b',"messages":['
        if request.system:
            head += encode_json({"role": "system", "content": request.system})
        return head

    def _fields(self, request: ModelRequest) -> dict[str, Any]:
        fields: dict[str, Any] = {"model": request.model, "stream": True}
        request_options = dict(request.options)
        extra_body = request_options.pop("extra_body", None) or {}
        has_tools = bool(request.tools) and request_options.get("tool_choice") != "none"
        for name in UNSUPPORTED:
            request_options.pop(name, None)
        if "stop_sequences" in request_options:
            request_options["stop"] = request_options.pop("stop_sequences")
        if (form := request_options.pop("response_format", None)) is not None:
            # https://docs.ollama.com/capabilities/structured-outputs
            if (schema := schema_in(form)) is not None:
                fields["format"] = schema
            elif form.get("type") != "text":
                fields["format"] = "json"
        if (effort := request_options.pop(EFFORT, None)) is not None:
            # Only this family has levels, and it has no other switch.
            # https://docs.ollama.com/capabilities/thinking
            has_levels = "gpt-oss" in request.model
            fields["think"] = nearest_effort(effort, _LEVELS) if has_levels else effort != "none"
        options = {
            "num_ctx": self._context_tokens,
            "temperature": request.temperature,
            "num_predict": request.max_tokens,
        }
        for name, value in request_options.items():
            (fields if name in _FIELDS else options)[name] = value
        options = {name: value for name, value in options.items() if value is not None}
        fields["options"] = without_omitted(options, request)
        if has_tools:
            fields["tools"] = [function_of(tool) for tool in request.tools]
        return without_omitted(fields | extra_body, request)


def _encode_messages(messages: Sequence[Message]) -> list[bytes]:
    encoded: list[bytes] = []
    names: dict[str, str] = {}
    for message in messages:
        for call in message.tool_calls:
            names[call.id] = sendable_tool_name(call)
        wire = message.wire.get(_KEY)
        if wire is None:
            name = names.get(message.tool_call_id or "")
            wire = message.wire[_KEY] = encode_json(_message(message, name))
        encoded.append(wire)
    return encoded


def _message(message: Message, tool_name: str | None) -> dict[str, Any]:
    match message.role:
        case "tool":
            data = {"role": "tool", "content": message.text, "tool_call_id": message.tool_call_id}
            return data | ({"tool_name": tool_name} if tool_name else {}) | _pictures(message)
        case "assistant":
            return _assistant(message)
        case _:
            data = {"role": message.role, "content": text_with_context(message)}
            return data | _pictures(message)


def _pictures(message: Message) -> dict[str, Any]:
    images = [part for part in message.content if isinstance(part, Image)]
    return {"images": [b64encode(image.data).decode() for image in images]} if images else {}


def _assistant(message: Message) -> dict[str, Any]:
    text = message.text
    if not text.strip():
        text = "" if message.tool_calls else load_prompt("said_nothing")
    data: dict[str, Any] = {"role": "assistant", "content": text}
    thinking = "".join(part.text for part in message.content if isinstance(part, Thinking))
    if thinking and message.tool_calls:
        data["thinking"] = thinking
    if message.tool_calls:
        data["tool_calls"] = [_call(call) for call in message.tool_calls]
    return data


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = {"unreadable": call.raw} if call.arguments is None else dict(call.arguments)
    return {"id": call.id, "function": {"name": sendable_tool_name(call), "arguments": arguments}}


# Lines: https://docs.ollama.com/api/chat


class OllamaResponseBuilder:
    """Converter of Ollama's stream lines to model events.

    `number` returns the first number for ids, because older versions of Ollama send none.
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


PATH = "/api/chat"


class OllamaProvider:
    """A `Provider` for one endpoint, whose `path` is `/api/chat`."""

    def __init__(
        self,
        endpoint: Endpoint,
        transport: Transport | None = None,
        *,
        context_tokens: int | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        deadlines = deadlines or Deadlines()
        self._endpoint = endpoint
        self._exchange = StreamingClient(
            endpoint, transport or AiohttpTransport(endpoint, deadlines), deadlines
        )
        self._encoder = OllamaRequestEncoder(context_tokens)
        self._unsupported = UnsupportedSettings(UNSUPPORTED)

    @property
    def name(self) -> str:
        return self._endpoint.vendor

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Return the events of one model call. Closing the iterator closes the connection."""
        body = self._encoder.body(request)
        reply = OllamaResponseBuilder(lambda: next_call_number(request.messages))
        stream = self._exchange.stream(request.model, body, NdjsonParser(), reply)
        return self._unsupported.announced(request, stream)

    def optional_fields(self, request: ModelRequest) -> set[str]:
        """Return the names of the body's fields that the API does not require."""
        return self._encoder.optional_fields(request)

    async def aclose(self) -> None:
        """Close the connections; the next use opens new ones."""
        await self._exchange.aclose()
