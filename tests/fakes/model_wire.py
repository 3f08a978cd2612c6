"""Wire format of OpenAI-compatible servers for replies, in many dialects.

https://platform.openai.com/docs/api-reference/chat-streaming
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.fakes.model_script import Call, Dialect, ReplyScript

CREATED = 1_700_000_000


def in_pieces(text: str, count: int) -> list[str]:
    """Split the text into at most `count` non-empty pieces of about the same size."""
    if not text:
        return []
    size = -(-len(text) // max(1, count))
    return [text[start : start + size] for start in range(0, len(text), size)]


def counted_usage(script: ReplyScript, request_bytes: int) -> dict[str, Any]:
    """Return usage with tokens as characters / 4, the only estimate a fake can make."""
    output = len(script.text) + len(script.reasoning)
    output += sum(len(call.name) + len(arguments_text(call)) for call in script.tool_calls)
    prompt, completion = request_bytes // 4, -(-output // 4)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


class ReplyWriter:
    """Writer of one reply to one request body."""

    content_type = "text/event-stream"

    def __init__(self, script: ReplyScript, dialect: Dialect, body: Mapping[str, Any]) -> None:
        self._script = script
        self._dialect = dialect
        self._turn = len(body.get("messages", ()))
        self._model = body.get("model", "")
        self._wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        self._reason = script.finish_reason or ("tool_calls" if script.tool_calls else "stop")

    def events(self, usage: Mapping[str, Any]) -> Iterator[bytes]:
        """Yield server-sent events, including the final [DONE]."""
        for chunk in self._chunks(usage):
            yield self._frame(json.dumps(chunk, ensure_ascii=False))
        if self._dialect.done:
            yield self._frame("[DONE]")

    def error_event(self) -> bytes:
        error = {"message": "The server had an error", "type": "server_error", "code": None}
        return self._frame(json.dumps({"error": error}))

    def garbage_event(self) -> bytes:
        return self._frame('{"choices": [{"delta": {"con')

    def whole(self, usage: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response to a request without `stream`."""
        message: dict[str, Any] = {"role": "assistant", "content": self._script.text or None}
        if self._script.reasoning:
            message["reasoning_content"] = self._script.reasoning
        if self._script.tool_calls:
            message["tool_calls"] = [
                self._call(n, call, self._whole_arguments(call))
                for n, call in enumerate(self._script.tool_calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._reason}
        answer = self._head("chat.completion") | {"choices": [choice]}
        return answer if self._dialect.usage == "none" else answer | {"usage": dict(usage)}

    def _chunks(self, usage: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        yield self._chunk({"role": "assistant", "content": ""})
        for piece in in_pieces(self._script.reasoning, self._script.pieces):
            yield self._chunk({"reasoning_content": piece})
        for detail in self._script.details:
            yield self._chunk({"reasoning_details": [dict(detail)]})
        for piece in in_pieces(self._script.text, self._script.pieces):
            yield self._chunk({"content": piece})
        for n, call in enumerate(self._script.tool_calls):
            for delta in self._call_deltas(n, call):
                yield self._chunk({"tool_calls": [delta]})
        last = self._chunk({}, self._reason)
        if self._dialect.usage == "last_chunk":
            last["usage"] = dict(usage)
        yield last
        if self._dialect.usage == "own_chunk" and self._wants_usage:
            head = self._head("chat.completion.chunk")
            yield head | {"choices": [], "usage": dict(usage)}

    def _call_deltas(self, n: int, call: Call) -> Iterator[dict[str, Any]]:
        if self._dialect.arguments_as_object:
            yield self._call(n, call, self._whole_arguments(call))
            return
        yield self._call(n, call, "")
        for piece in in_pieces(arguments_text(call), self._script.pieces):
            delta = self._call(n, call, piece)
            if not self._dialect.repeat_call_head:
                del delta["id"], delta["type"], delta["function"]["name"]
            yield delta

    def _call(self, n: int, call: Call, arguments: Any) -> dict[str, Any]:
        call_id = "" if self._dialect.empty_call_id else call.id or f"call_{self._turn}_{n}"
        function = {"name": call.name, "arguments": arguments}
        delta: dict[str, Any] = {"id": call_id, "type": "function", "function": function}
        if call.extra is not None:
            delta["extra_content"] = dict(call.extra)
        return delta if self._dialect.no_call_index else {"index": n, **delta}

    def _whole_arguments(self, call: Call) -> Any:
        if self._dialect.arguments_as_object and isinstance(call.arguments, Mapping):
            return dict(call.arguments)
        return arguments_text(call)

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return self._head("chat.completion.chunk") | {"choices": [choice]}

    def _head(self, kind: str) -> dict[str, Any]:
        reply_id = f"chatcmpl-{self._turn}"
        return {"id": reply_id, "object": kind, "created": CREATED, "model": self._model}

    def _frame(self, data: str) -> bytes:
        end = "\r\n" if self._dialect.crlf else "\n"
        comment = f": keep-alive{end}{end}" if self._dialect.comments else ""
        colon = "data:" if self._dialect.tight_data else "data: "
        return f"{comment}{colon}{data}{end}{end}".encode()


def arguments_text(call: Call) -> str:
    """Return the arguments as the text that is sent in pieces."""
    if isinstance(call.arguments, str):
        return call.arguments
    return json.dumps(call.arguments, ensure_ascii=False)


def split_characters(frame: bytes) -> list[bytes]:
    """Split every multi-byte character after its first byte."""
    pieces, start = [], 0
    for position, byte in enumerate(frame):
        if byte >= 0xC0:
            pieces.append(frame[start : position + 1])
            start = position + 1
    return [*pieces, frame[start:]]
