"""Writer for a chat completion: its JSON, and its chunks."""

from collections.abc import Mapping
from typing import Any

from agent.errors import KoreError
from agent.types import ToolCall, Usage
from gateway.server.openai_api.answer_stream import AnswerEnd
from gateway.server.openai_api.errors import error_body


class ChatWriter:
    """`AnswerWriter` for one completion of `model`; each message is a paragraph.

    `created_at` is in Unix seconds. With `has_usage`, the client asked for a last chunk with the
    usage.
    """

    def __init__(
        self, model: str, answer_id: str, created_at: float, *, has_usage: bool = False
    ) -> None:
        self._head = {"id": answer_id, "created": int(created_at), "model": model}
        self._has_usage = has_usage
        self._text = ""
        self._is_paragraph = False
        self._calls: dict[str, int] = {}
        self._end: AnswerEnd | None = None
        self._chunks: list[dict[str, Any]] = []

    @property
    def text(self) -> str:
        return self._text

    def begin(self) -> None:
        self._add_chunk({"role": "assistant", "content": ""})

    def add_text(self, text: str) -> None:
        self.add_rest(f"\n\n{text}" if self._is_paragraph else text)
        self._is_paragraph = False

    def end_message(self) -> None:
        self._is_paragraph = bool(self._text)

    def add_rest(self, text: str) -> None:
        if text:
            self._text += text
            self._add_chunk({"content": text})

    def add_call(self, call_id: str, name: str, piece: str) -> None:
        """Add a chunk; only the first piece of a call has the name and the id."""
        function = {"arguments": piece}
        if call_id in self._calls:
            call = {"index": self._calls[call_id], "function": function}
        else:
            number = self._calls[call_id] = len(self._calls)
            head = {"index": number, "id": call_id, "type": "function"}
            call = {**head, "function": {"name": name, **function}}
        self._add_chunk({"tool_calls": [call]})

    def add_item(self, item: Mapping[str, Any], prefix: str) -> int:
        """Ignore the item, because a chat completion has no place for it."""
        return 0

    def end_item(self, index: int, changes: Mapping[str, Any]) -> None: ...

    def complete(self, end: AnswerEnd) -> None:
        self._end = end
        self._add_chunk({}, end.finish)
        if self._has_usage:
            chunk = {**self._head, "object": "chat.completion.chunk", "choices": []}
            self._chunks.append({**chunk, "usage": _usage_json(end.usage)})

    def fail(self, error: KoreError) -> None:
        self._chunks.append(error_body(error))

    def take(self) -> list[dict[str, Any]]:
        chunks, self._chunks = self._chunks, []
        return chunks

    def snapshot(self) -> dict[str, Any]:
        """Return the whole completion after its end."""
        assert self._end is not None, "an answer ends or fails"
        message: dict[str, Any] = {"role": "assistant", "refusal": None, "content": self._end.text}
        if self._end.calls:
            message["tool_calls"] = [_call_json(call) for call in self._end.calls]
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self._end.finish,
        }
        return {
            **self._head,
            "object": "chat.completion",
            "choices": [choice],
            "usage": _usage_json(self._end.usage),
        }

    def _add_chunk(self, delta: Mapping[str, Any], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        self._chunks.append({**self._head, "object": "chat.completion.chunk", "choices": [choice]})


def _usage_json(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


def _call_json(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.raw}
    return {"id": call.id, "type": "function", "function": function}
