"""Encoder for OpenAI's Responses API; each message is encoded once.

The vendor stores nothing (`store: false`): each request contains the whole conversation, with the
encrypted reasoning of earlier replies. Constant fields come first and `input` last, so that a
request repeats the previous one byte for byte up to its new messages. Body:
https://platform.openai.com/docs/api-reference/responses/create
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any

from agent.prompts import load_prompt
from agent.providers.base import PLAIN_FUNCTIONS, ModelRequest, ToolSpec
from agent.providers.effort import EFFORT, nearest_effort
from agent.providers.wire_text import (
    RequestHeadCache,
    encode_json,
    sendable_tool_name,
    text_with_context,
    without_omitted,
)
from agent.types import (
    Image,
    Message,
    Part,
    ReasoningEffort,
    Text,
    Thinking,
    ToolCall,
    ToolCallMarker,
)

_KEY = "openai-responses"
# Key of messages with calls of tools that take free text.
_FREE_TEXT_KEY = "openai-responses, free text"
_ENCRYPTED = "reasoning.encrypted_content"
# The API refuses a smaller limit.
_MIN_OUTPUT_TOKENS = 16
_PARALLEL = "parallel_tool_calls"
# `store` is required: without it, the vendor stores the conversation.
_REQUIRED = frozenset({"instructions", "model", "store", "stream"})
# Settings without a field in this API.
UNSUPPORTED = frozenset({"seed", "stop_sequences", "frequency_penalty", "presence_penalty"})


class ResponsesRequestEncoder:
    """Encoder of request bodies.

    `efforts` are the supported levels of reasoning; empty for all. `plain_models` are not asked for
    encrypted reasoning.
    """

    def __init__(
        self, efforts: Sequence[ReasoningEffort] = (), plain_models: Iterable[str] = ()
    ) -> None:
        self._efforts = efforts
        self._plain = set(plain_models)
        self._heads = RequestHeadCache(self._head)

    def leave_out_encrypted(self, model: str) -> bool:
        """Stop asking this model for encrypted reasoning; return False if that was already off."""
        if model in self._plain:
            return False
        self._plain.add(model)
        self._heads = RequestHeadCache(self._head)
        return True

    def optional_fields(self, request: ModelRequest) -> set[str]:
        """Return the names of the body's fields that the API does not require."""
        fields = self._fields(request).keys() - _REQUIRED
        return fields | {PLAIN_FUNCTIONS} if _free_text_tools(request) else fields

    def body(self, request: ModelRequest) -> bytes:
        """Return the request as compact UTF-8 JSON."""
        items = filter(None, _encoded_items(request.messages, _free_text_tools(request)))
        return b"".join((self._heads.of(request), b",".join(items), b"]}"))

    def _head(self, request: ModelRequest) -> bytes:
        return encode_json(self._fields(request))[:-1] + b',"input":['

    def _fields(self, request: ModelRequest) -> dict[str, Any]:
        fields: dict[str, Any] = {"model": request.model, "stream": True, "store": False}
        if request.model not in self._plain:
            fields["include"] = [_ENCRYPTED]
        if request.system:
            fields["instructions"] = request.system
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.max_tokens is not None:
            fields["max_output_tokens"] = max(request.max_tokens, _MIN_OUTPUT_TOKENS)
        options = dict(request.options)
        extra_body = options.pop("extra_body", None) or {}
        tool_choice, parallel = options.pop("tool_choice", None), options.pop(_PARALLEL, None)
        fields |= self._options(options)
        if request.cache_key:
            fields["prompt_cache_key"] = request.cache_key
        if request.tools:
            free_text = _free_text_tools(request)
            fields["tools"] = [
                _custom(tool, tool.grammar) if tool.grammar and free_text else _function(tool)
                for tool in request.tools
            ]
            if tool_choice is not None:
                kind = "custom" if tool_choice in free_text else "function"
                fields["tool_choice"] = _tool_choice(tool_choice, kind)
            if parallel is not None:
                fields[_PARALLEL] = parallel
        return without_omitted(fields | extra_body, request)

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options under the names of this API."""
        fields: dict[str, Any] = {}
        if (effort := options.pop(EFFORT, None)) is not None:
            level = nearest_effort(effort, self._efforts)
            # Without a summary, people would not see what the model thinks.
            summary = {} if level == "none" else {"summary": "auto"}
            fields["reasoning"] = {"effort": level, **summary}
        text = {}
        if (shape := options.pop("response_format", None)) is not None:
            text["format"] = _text_format(shape)
        if (verbosity := options.pop("verbosity", None)) is not None:
            text["verbosity"] = verbosity
        if text:
            fields["text"] = text
        return fields | {
            name: value
            for name, value in options.items()
            if value is not None and name not in UNSUPPORTED
        }


def _free_text_tools(request: ModelRequest) -> frozenset[str]:
    """Return the names of the tools that take free text in this request."""
    if PLAIN_FUNCTIONS in request.adaptations:
        return frozenset()
    return frozenset(tool.name for tool in request.tools if tool.grammar)


def _tool_choice(choice: str, kind: str) -> object:
    choice_of_one = {"type": kind, "name": choice}
    return choice if choice in ("auto", "none", "required") else choice_of_one


def _function(tool: ToolSpec) -> dict[str, Any]:
    # `strict` is on by default and would reject every optional argument.
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": False,
    }


def _custom(tool: ToolSpec, grammar: str) -> dict[str, Any]:
    return {
        "type": "custom",
        "name": tool.name,
        "description": tool.description,
        "format": {"type": "grammar", "syntax": "lark", "definition": grammar},
    }


def _text_format(shape: Any) -> Any:
    """Convert `response_format` of chat completions, whose schema is one level higher here."""
    if isinstance(shape, dict) and isinstance(schema := shape.get("json_schema"), dict):
        return {"type": "json_schema", **schema}
    return shape


def _encoded_items(messages: Sequence[Message], free_text_tools: Set[str]) -> Iterator[bytes]:
    """Yield the items of each message, joined by commas."""
    free_text_ids: set[str] = set()
    for message in messages:
        free_text_ids |= {
            call.id
            for call in message.tool_calls
            if call.name in free_text_tools and _free_text(call) is not None
        }
        has_free_text = message.tool_call_id in free_text_ids or any(
            call.id in free_text_ids for call in message.tool_calls
        )
        key = _FREE_TEXT_KEY if has_free_text else _KEY
        encoded = message.wire.get(key)
        if encoded is None:
            encoded = message.wire[key] = encode_json(list(_items(message, free_text_ids)))[1:-1]
        yield encoded


def _free_text(call: ToolCall) -> str | None:
    """Return the only argument of a call if it is a text, else None."""
    match list((call.arguments or {}).values()):
        case [str(text)]:
            return text
    return None


def _items(message: Message, free_text_ids: Set[str]) -> Iterator[dict[str, Any]]:
    match message.role:
        case "tool":
            is_free_text = message.tool_call_id in free_text_ids
            yield {
                "type": "custom_tool_call_output" if is_free_text else "function_call_output",
                "call_id": message.tool_call_id or "",
                "output": _output(message),
            }
        case "assistant":
            yield from _reply(message, free_text_ids)
        case _:
            yield {"type": "message", "role": message.role, "content": _input_content(message)}


def _input_content(message: Message) -> str | list[dict[str, Any]]:
    text = text_with_context(message)
    images = [part for part in message.content if isinstance(part, Image)]
    if not images:
        return text
    texts = [{"type": "input_text", "text": text}] if text.strip() else []
    return [*map(_picture, images), *texts]


def _output(message: Message) -> str | list[dict[str, Any]]:
    """Return the text of a result, or its text and pictures."""
    images = [part for part in message.content if isinstance(part, Image)]
    if not images:
        return message.text
    return [{"type": "input_text", "text": message.text}, *map(_picture, images)]


def _picture(image: Image) -> dict[str, Any]:
    url = f"data:{image.media_type};base64,{b64encode(image.data).decode()}"
    return {"type": "input_image", "image_url": url}


def _reply(message: Message, free_text_ids: Set[str]) -> Iterator[dict[str, Any]]:
    """Yield the items of a reply, in their original order if it is known."""
    calls = {call.id: call for call in message.tool_calls}
    phase: str | None = None
    is_silent = not calls
    for part in message.content:
        match part:
            case Text(text) if text.strip():
                is_silent = False
                yield _message_item(text, phase)
                phase = None
            case ToolCallMarker(call_id) if call := calls.pop(call_id, None):
                yield _call(call, free_text_ids)
            case Thinking() if item := reasoning_item_of(part):
                yield item
            case Thinking():
                phase = phase_of(part) or phase
    if is_silent:
        yield _message_item(load_prompt("said_nothing"), None)
    for call in calls.values():
        yield _call(call, free_text_ids)


def _message_item(text: str, phase: str | None) -> dict[str, Any]:
    item = {"type": "message", "role": "assistant", "content": text}
    return item if phase is None else item | {"phase": phase}


def _call(call: ToolCall, free_text_ids: Set[str]) -> dict[str, Any]:
    if call.id in free_text_ids:
        return {
            "type": "custom_tool_call",
            "call_id": call.id,
            "name": call.name,
            "input": _free_text(call),
        }
    raw = call.raw if call.arguments is not None else json.dumps({"unreadable": call.raw})
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": sendable_tool_name(call),
        "arguments": raw.strip() or "{}",
    }


def reasoning_signature(item: Mapping[str, Any]) -> str | None:
    """Return the parts of a reasoning item to send back, as a signature; None without any."""
    if not (item.get("encrypted_content") or item.get("content")):
        # Without both fields, the vendor would look for the item, which it has not stored.
        return None
    fields = {name: item[name] for name in _REASONING_FIELDS if item.get(name) is not None}
    return json.dumps({_REASONING: fields})


def phase_signature(phase: str) -> str:
    """Return the phase of the next text (`commentary`, `final_answer`) as a signature."""
    return json.dumps({_PHASE: phase})


def reasoning_item_of(part: Part) -> dict[str, Any] | None:
    """Return the reasoning item of a reply; None for thoughts of other vendors."""
    item = _signed(part, _REASONING)
    return {"type": "reasoning", "summary": [], **item} if isinstance(item, dict) else None


def phase_of(part: Part) -> str | None:
    phase = _signed(part, _PHASE)
    return phase if isinstance(phase, str) else None


_REASONING = "responses_reasoning"
_PHASE = "responses_phase"
_REASONING_FIELDS = ("id", "summary", "content", "encrypted_content")


def _signed(part: Part, name: str) -> Any:
    signature = part.signature if isinstance(part, Thinking) else None
    if not signature or not signature.startswith(f'{{"{name}"'):
        return None
    return json.loads(signature)[name]
