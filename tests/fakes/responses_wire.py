"""Wire format of OpenAI's Responses API, and its validation of requests.

https://platform.openai.com/docs/api-reference/responses-streaming
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.fakes.model_checks import TOOL_NAME
from tests.fakes.model_script import Call, Dialect, ReplyScript
from tests.fakes.model_wire import arguments_text, in_pieces

ENCRYPTED = "gAAAAABqX1a78BDqk"
_STATUS = {"length": "incomplete", "content_filter": "incomplete"}
_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponsesWriter:
    """Writer of one reply to one request body."""

    content_type = "text/event-stream"

    def __init__(self, script: ReplyScript, dialect: Dialect, body: Mapping[str, Any]) -> None:
        self._script = script
        self._done = dialect.done
        self._turn = len(body.get("input", ()))
        self._model = body.get("model", "")
        tools = body.get("tools") or ()
        self._free_text_tools = {tool["name"] for tool in tools if tool.get("type") == "custom"}
        self._encrypts = "reasoning.encrypted_content" in (body.get("include") or ())
        self._number = 0

    def events(self, usage: Mapping[str, Any]) -> Iterator[bytes]:
        began = self._response("in_progress", [], None)
        yield self._frame("response.created", response=began)
        yield self._frame("response.in_progress", response=began)
        for index, (item, events) in enumerate(self._items()):
            place = {"output_index": index, "item_id": item["id"]}
            empty = _empty(item)
            yield self._frame("response.output_item.added", output_index=index, item=empty)
            for kind, fields in events:
                yield self._frame(kind, **place, **fields)
            yield self._frame("response.output_item.done", output_index=index, item=item)
        whole = self.whole(usage)
        yield self._frame(f"response.{whole['status']}", response=whole)
        if self._done:
            yield b"data: [DONE]\n\n"

    def error_event(self) -> bytes:
        return self._frame("error", code="server_error", message="Overloaded", param=None)

    def garbage_event(self) -> bytes:
        return b'event: response.output_text.delta\ndata: {"type": "response.out\n\n'

    def whole(self, usage: Mapping[str, Any]) -> dict[str, Any]:
        status = _STATUS.get(self._script.finish_reason or "", "completed")
        return self._response(status, [item for item, _ in self._items()], responses_usage(usage))

    def _frame(self, kind: str, **fields: Any) -> bytes:
        event = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return f"event: {kind}\ndata: {json.dumps(event)}\n\n".encode()

    def _response(
        self, status: str, output: list[Any], usage: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        reason = _REASONS.get(self._script.finish_reason or "")
        return {
            "id": f"resp_{self._turn}",
            "object": "response",
            "status": status,
            "model": self._model,
            "output": output,
            "error": None,
            "incomplete_details": {"reason": reason} if reason else None,
            "usage": usage,
            "store": False,
        }

    def _items(self) -> Iterator[tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]]:
        script = self._script
        if script.reasoning:
            yield self._reasoning(script.reasoning)
        if script.text:
            yield self._message(script.text)
        for n, call in enumerate(script.tool_calls):
            yield self._call(n, call)

    def _reasoning(self, text: str) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
        item = {
            "type": "reasoning",
            "id": f"rs_{self._turn}",
            "summary": [{"type": "summary_text", "text": text}],
        }
        if self._encrypts:
            item["encrypted_content"] = ENCRYPTED
        deltas = [
            ("response.reasoning_summary_text.delta", {"summary_index": 0, "delta": piece})
            for piece in in_pieces(text, self._script.pieces)
        ]
        return item, [("response.reasoning_summary_part.added", {"summary_index": 0}), *deltas]

    def _message(self, text: str) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
        content = {"type": "output_text", "text": text, "annotations": []}
        item = {
            "type": "message",
            "id": f"msg_{self._turn}",
            "role": "assistant",
            "status": "completed",
            "content": [content],
        }
        if self._script.tool_calls:
            item["phase"] = "commentary"
        deltas = [
            ("response.output_text.delta", {"content_index": 0, "delta": piece})
            for piece in in_pieces(text, self._script.pieces)
        ]
        added = {"content_index": 0, "part": {**content, "text": ""}}
        done = {"content_index": 0, "text": text}
        return item, [
            ("response.content_part.added", added),
            *deltas,
            ("response.output_text.done", done),
        ]

    def _call(self, n: int, call: Call) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
        arguments = arguments_text(call)
        if call.name in self._free_text_tools:
            return self._free_text_call(n, call, json.loads(arguments)["input"])
        item = {
            "type": "function_call",
            "id": f"fc_{self._turn}_{n}",
            "call_id": call.id or f"call_{self._turn}_{n}",
            "name": call.name,
            "arguments": arguments,
            "status": "completed",
        }
        deltas = [
            ("response.function_call_arguments.delta", {"delta": piece})
            for piece in in_pieces(arguments, self._script.pieces)
        ]
        done = ("response.function_call_arguments.done", {"arguments": arguments})
        return item, [*deltas, done]

    def _free_text_call(
        self, n: int, call: Call, text: str
    ) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
        item = {
            "type": "custom_tool_call",
            "id": f"ctc_{self._turn}_{n}",
            "call_id": call.id or f"call_{self._turn}_{n}",
            "name": call.name,
            "input": text,
            "status": "completed",
        }
        deltas = [
            ("response.custom_tool_call_input.delta", {"delta": piece})
            for piece in in_pieces(text, self._script.pieces)
        ]
        return item, [*deltas, ("response.custom_tool_call_input.done", {"input": text})]


def _empty(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the item as it is announced."""
    blanks: dict[str, dict[str, Any]] = {
        "message": {"content": []},
        "reasoning": {"summary": []},
        "custom_tool_call": {"input": ""},
    }
    blank = blanks.get(item["type"], {"arguments": ""})
    begun = {name: value for name, value in item.items() if name != "encrypted_content"}
    return {**begun, **blank, "status": "in_progress"}


def responses_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Convert chat completions' usage to the names of this API."""
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage["prompt_tokens"] + usage["completion_tokens"],
    }


def complaint(body: Mapping[str, Any]) -> str | None:
    """Return the vendor's error message for an invalid request, or None."""
    if body.get("store") is not False:
        return "this stand-in stores nothing: store must be false"
    if "messages" in body or "max_tokens" in body:
        return "Unknown parameter: this belongs to chat completions."
    if body.get("max_output_tokens", 16) < 16:
        return "Invalid 'max_output_tokens': integer below minimum value."
    for n, tool in enumerate(body.get("tools") or ()):
        if not TOOL_NAME.fullmatch(tool.get("name", "")):
            return f"Invalid 'tools[{n}].name': string does not match pattern."
        if tool.get("type") == "custom":
            if tool.get("format", {}).get("syntax") not in ("lark", "regex"):
                return f"Invalid 'tools[{n}].format.syntax'."
            continue
        if tool.get("type") != "function":
            return f"Invalid value: 'tools[{n}].type'."
        if tool.get("strict") is not False:
            return f"Invalid schema for function 'tools[{n}]': 'required' must name every property."
    return _about_items(body.get("input") or [])


def _about_items(items: Sequence[Mapping[str, Any]]) -> str | None:
    open_calls: list[str] = []
    for n, item in enumerate(items):
        match item.get("type", "message"):
            case "function_call":
                if not isinstance(item.get("arguments"), str) or not item.get("call_id"):
                    return f"Missing required parameter: 'input[{n}].arguments'."
                open_calls.append(item["call_id"])
            case "custom_tool_call":
                if not isinstance(item.get("input"), str) or not item.get("call_id"):
                    return f"Missing required parameter: 'input[{n}].input'."
                open_calls.append(item["call_id"])
            case "function_call_output" | "custom_tool_call_output":
                if item.get("call_id") not in open_calls:
                    return f"No tool call found for function call output ({item.get('call_id')})."
                open_calls.remove(item["call_id"])
            case "reasoning":
                if not item.get("encrypted_content"):
                    return (
                        f"Item with id '{item.get('id')}' not found. Items are not persisted when "
                        "`store` is set to false."
                    )
                if item["encrypted_content"] != ENCRYPTED:
                    return (
                        f"The encrypted content for item {item.get('id')} could not be verified. "
                        "Reason: Encrypted content could not be decrypted or parsed."
                    )
            case "message":
                if open_calls and item.get("role") == "user":
                    return f"No tool output found for function call {open_calls[0]}."
                if not item.get("content"):
                    return f"Missing required parameter: 'input[{n}].content'."
            case kind:
                return f"Invalid value: '{kind}' (input[{n}].type)."
    return f"No tool output found for function call {open_calls[0]}." if open_calls else None


def as_openai(body: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the conversation to the format that a mind reads."""
    messages: list[dict[str, Any]] = []
    if body.get("instructions"):
        messages.append({"role": "system", "content": body["instructions"]})
    for item in body.get("input") or ():
        match item.get("type", "message"):
            case "message":
                messages.append({"role": item["role"], "content": _text(item["content"])})
            case "function_call" | "custom_tool_call":
                arguments = item.get("arguments") or json.dumps({"input": item.get("input")})
                function = {"name": item["name"], "arguments": arguments}
                call = {"id": item["call_id"], "type": "function", "function": function}
                if messages and messages[-1].get("tool_calls"):
                    messages[-1]["tool_calls"].append(call)
                else:
                    messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            case "function_call_output" | "custom_tool_call_output":
                result = {
                    "role": "tool",
                    "tool_call_id": item["call_id"],
                    "content": item["output"],
                }
                messages.append(result)
    tools = [{"type": "function", "function": dict(tool)} for tool in body.get("tools") or ()]
    return {**body, "messages": messages, "tools": tools}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)
