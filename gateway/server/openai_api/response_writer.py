"""Writer for a response of `/v1/responses`: its JSON and its events.

The format is Open Responses: https://www.openresponses.org/specification
"""

import time
from collections.abc import Mapping
from typing import Any, Literal

from agent.errors import KoreError
from agent.types import ToolCall, Usage
from gateway.server.openai_api.answer_stream import AnswerEnd
from gateway.server.openai_api.errors import api_error_of

# Fields that a request may set, with their default values in the response.
_DEFAULTS: Mapping[str, Any] = {
    "instructions": None,
    "previous_response_id": None,
    "tool_choice": "auto",
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "text": {"format": {"type": "text"}},
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "temperature": 1.0,
    "reasoning": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "store": True,
    "background": False,
    "service_tier": "default",
    "metadata": {},
    "safety_identifier": None,
    "prompt_cache_key": None,
    "user": None,
}
Status = Literal["in_progress", "completed", "incomplete", "failed"]


class ResponseWriter:
    """`AnswerWriter` for a response.

    The ids of items are derived from `response_id`; times are Unix seconds, None for now.
    """

    def __init__(
        self,
        body: Mapping[str, Any],
        model: str,
        response_id: str,
        created_at: float | None = None,
    ) -> None:
        self.id = response_id
        self.output: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []
        self._number = 0
        self._message: int | None = None
        self._pieces: list[str] = []
        self._texts: list[str] = []
        self._calls: dict[str, int] = {}
        self._fields = {
            "id": response_id,
            "object": "response",
            "created_at": int(time.time() if created_at is None else created_at),
            "completed_at": None,
            "status": "in_progress",
            "incomplete_details": None,
            "error": None,
            "model": model,
            "usage": None,
            **{name: body.get(name, value) for name, value in _DEFAULTS.items()},
            "tools": [_tool(tool) for tool in body.get("tools") or ()],
        }
        for name, value in _DEFAULTS.items():
            if self._fields[name] is None:
                self._fields[name] = value

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def snapshot(self) -> dict[str, Any]:
        return {**self._fields, "output": list(self.output)}

    def take(self) -> list[dict[str, Any]]:
        events, self._events = self._events, []
        return events

    def begin(self) -> None:
        self._emit("response.created", response=self.snapshot())
        self._emit("response.in_progress", response=self.snapshot())

    def add_text(self, text: str) -> None:
        if self._message is None:
            item = {"type": "message", "status": "in_progress", "role": "assistant", "content": []}
            self._message = self.add_item(item, "msg")
            part = _text_part("")
            self._emit_part_event("response.content_part.added", part=part)
        self._pieces.append(text)
        self._texts.append(text)
        self._emit_part_event("response.output_text.delta", delta=text, logprobs=[])

    def end_message(self) -> None:
        if self._message is None:
            return
        part = _text_part("".join(self._pieces))
        self._pieces.clear()
        self._emit_part_event("response.output_text.done", text=part["text"], logprobs=[])
        self._emit_part_event("response.content_part.done", part=part)
        self.end_item(self._message, {"content": [part]})
        self._message = None

    def add_rest(self, text: str) -> None:
        self.end_message()
        if text := text.strip():
            self.add_text(text)

    def add_call(self, call_id: str, name: str, piece: str) -> None:
        self.end_message()
        if call_id not in self._calls:
            item = {
                "type": "function_call",
                "status": "in_progress",
                "call_id": call_id,
                "name": name,
                "arguments": "",
            }
            self._calls[call_id] = self.add_item(item, "fc")
        index = self._calls[call_id]
        self._emit_item_event(index, "response.function_call_arguments.delta", delta=piece)

    def _end_call(self, call: ToolCall) -> None:
        index = self._calls[call.id]
        self._emit_item_event(
            index, "response.function_call_arguments.done", name=call.name, arguments=call.raw
        )
        self.end_item(index, {"arguments": call.raw})

    def add_item(self, item: Mapping[str, Any], prefix: str) -> int:
        index = len(self.output)
        suffix = self.id.partition("_")[2]
        self.output.append({"id": f"{prefix}_{suffix}_{index}", **item})
        self._emit("response.output_item.added", output_index=index, item=self.output[index])
        return index

    def end_item(self, index: int, changes: Mapping[str, Any]) -> None:
        self.output[index] = {**self.output[index], "status": "completed", **changes}
        self._emit("response.output_item.done", output_index=index, item=self.output[index])

    def complete(self, end: AnswerEnd) -> None:
        """End the response, even if it was cut short."""
        self.end_message()
        for call in end.calls:
            self._end_call(call)
        reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
        reason = reasons.get(end.finish)
        self._fields["usage"] = _usage_json(end.usage)
        self._fields["completed_at"] = int(time.time() if end.at is None else end.at)
        if reason is None:
            self._end("completed")
        else:
            self._fields["incomplete_details"] = {"reason": reason}
            self._end("incomplete")

    def fail(self, error: KoreError) -> None:
        own_error = api_error_of(error)
        self._fields["error"] = {"code": own_error.code, "message": str(own_error)}
        self._end("failed")

    def _end(self, status: Status) -> None:
        self._fields["status"] = status
        self._emit(f"response.{status}", response=self.snapshot())

    def _emit_part_event(self, kind: str, **values: Any) -> None:
        assert self._message is not None
        self._emit_item_event(self._message, kind, content_index=0, **values)

    def _emit_item_event(self, index: int, kind: str, **values: Any) -> None:
        self._emit(kind, item_id=self.output[index]["id"], output_index=index, **values)

    def _emit(self, kind: str, **values: Any) -> None:
        self._events.append({"type": kind, "sequence_number": self._number, **values})
        self._number += 1


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage_json(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input + usage.output,
    }


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool as the response repeats it, with all optional fields."""
    return {"description": None, "parameters": None, "strict": None, **tool}
