"""Ollama's wire format for replies, and its validation of requests.

https://docs.ollama.com/api/chat
"""

import json
from base64 import b64decode
from binascii import Error
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from tests.fakes.model_script import Dialect, ReplyScript
from tests.fakes.model_wire import arguments_text, in_pieces


class OllamaWriter:
    """Writer of one reply to one request body; calls are sent whole, with object arguments."""

    content_type = "application/x-ndjson"

    def __init__(self, script: ReplyScript, dialect: Dialect, body: Mapping[str, Any]) -> None:
        self._script = script
        self._dialect = dialect
        self._turn = len(body.get("messages", ()))
        self._model = body.get("model", "")

    def events(self, usage: Mapping[str, Any]) -> Iterator[bytes]:
        for piece in in_pieces(self._script.reasoning, self._script.pieces):
            yield self._line({"content": "", "thinking": piece})
        for piece in in_pieces(self._script.text, self._script.pieces):
            yield self._line({"content": piece})
        for n in range(len(self._script.tool_calls)):
            yield self._line({"content": "", "tool_calls": [self._call(n)]})
        yield self._line({"content": ""}, **self._end(usage))

    def error_event(self) -> bytes:
        return b'{"error":"an error was encountered while running the model"}\n'

    def garbage_event(self) -> bytes:
        return b'{"model":"fake","message":{"ro\n'

    def whole(self, usage: Mapping[str, Any]) -> dict[str, Any]:
        message: dict[str, Any] = {"content": self._script.text}
        if self._script.reasoning:
            message["thinking"] = self._script.reasoning
        if self._script.tool_calls:
            message["tool_calls"] = [self._call(n) for n in range(len(self._script.tool_calls))]
        document: dict[str, Any] = json.loads(self._line(message, **self._end(usage)))
        return document

    def _call(self, n: int) -> dict[str, Any]:
        call = self._script.tool_calls[n]
        arguments: Any = arguments_text(call) or "{}"
        # Ollama itself sends only objects; other values imitate a server that deviates.
        with suppress(ValueError):
            arguments = json.loads(arguments)
        function = {"index": n, "name": call.name, "arguments": arguments}
        if self._dialect.empty_call_id:
            return {"function": function}
        return {"id": call.id or f"call_{self._turn}{n}", "function": function}

    def _end(self, usage: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "done": True,
            "done_reason": self._script.finish_reason or "stop",
            "total_duration": 4883583458,
            "prompt_eval_count": usage["prompt_tokens"],
            "eval_count": usage["completion_tokens"],
        }

    def _line(self, message: Mapping[str, Any], **more: Any) -> bytes:
        head = {"model": self._model, "created_at": "2026-11-21T14:30:00.123456Z"}
        result = {"role": "assistant", **message}
        data = {**head, "message": result, "done": False, **more}
        return json.dumps(data, ensure_ascii=False).encode() + b"\n"


def complaint(body: Mapping[str, Any]) -> str | None:
    """Return Ollama's error message for an invalid request, or None."""
    if not body.get("model"):
        return "model is required"
    for message in body.get("messages", ()):
        if message["role"] not in ("system", "user", "assistant", "tool"):
            return f"invalid role: {message['role']}"
        if not isinstance(message.get("content", ""), str):
            return (
                "json: cannot unmarshal array into Go struct field .messages.content of type string"
            )
        for call in message.get("tool_calls", ()):
            if not isinstance(call["function"]["arguments"], dict):
                return "json: cannot unmarshal string into Go struct field .arguments of type map"
        for image in message.get("images", ()):
            try:
                b64decode(image, validate=True)
            except Error:
                return "illegal base64 data at input byte 0"
    return None
