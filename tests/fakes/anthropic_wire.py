"""Anthropic's wire format for replies, and its validation of requests.

https://platform.claude.com/docs/en/build-with-claude/streaming
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.fakes.model_script import Call, Dialect, ReplyScript
from tests.fakes.model_wire import arguments_text, in_pieces

SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3h"
REDACTED = "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIw"
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_REASONS = {"length": "max_tokens", "stop": "end_turn", "tool_calls": "tool_use"}


class AnthropicWriter:
    """Writer of one reply to one request body."""

    content_type = "text/event-stream"

    def __init__(self, script: ReplyScript, dialect: Dialect, body: Mapping[str, Any]) -> None:
        self._script = script
        self._turn = len(body.get("messages", ()))
        self._model = body.get("model", "")
        reason = "tool_use" if script.tool_calls else "end_turn"
        self._reason = _REASONS.get(script.finish_reason or "", script.finish_reason) or reason

    def events(self, usage: Mapping[str, Any]) -> Iterator[bytes]:
        counted = anthropic_usage(usage)
        message = self._message([], None, {**counted, "output_tokens": 1})
        yield _frame({"type": "message_start", "message": message})
        yield _frame({"type": "ping"})
        for index, (start, deltas) in enumerate(self._blocks()):
            yield _frame({"type": "content_block_start", "index": index, "content_block": start})
            for delta in deltas:
                yield _frame({"type": "content_block_delta", "index": index, "delta": delta})
            yield _frame({"type": "content_block_stop", "index": index})
        delta = {"stop_reason": self._reason, "stop_sequence": None}
        result = {"output_tokens": counted["output_tokens"]}
        yield _frame({"type": "message_delta", "delta": delta, "usage": result})
        yield _frame({"type": "message_stop"})

    def error_event(self) -> bytes:
        error = {"type": "overloaded_error", "message": "Overloaded"}
        return _frame({"type": "error", "error": error})

    def garbage_event(self) -> bytes:
        return b'event: content_block_delta\ndata: {"type": "content_bl\n\n'

    def whole(self, usage: Mapping[str, Any]) -> dict[str, Any]:
        content = []
        for start, deltas in self._blocks():
            content.append(start | _grown(start, deltas))
        return self._message(content, self._reason, anthropic_usage(usage))

    def _message(
        self, content: list[Any], reason: str | None, usage: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {
            "id": f"msg_{self._turn}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": dict(usage),
        }

    def _blocks(self) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
        script, pieces = self._script, self._script.pieces
        if script.reasoning:
            deltas = [
                {"type": "thinking_delta", "thinking": piece}
                for piece in in_pieces(script.reasoning, pieces)
            ]
            signature = {"type": "signature_delta", "signature": SIGNATURE}
            yield {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signature]
            yield {"type": "redacted_thinking", "data": REDACTED}, []
        if script.text:
            deltas = [
                {"type": "text_delta", "text": piece} for piece in in_pieces(script.text, pieces)
            ]
            yield {"type": "text", "text": ""}, deltas
        for n, call in enumerate(script.tool_calls):
            yield self._call(n, call)

    def _call(self, n: int, call: Call) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        call_id = call.id or f"toolu_{self._turn}_{n}"
        # The first piece is always empty.
        pieces = ["", *in_pieces(arguments_text(call), self._script.pieces)]
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        return {"type": "tool_use", "id": call_id, "name": call.name, "input": {}}, deltas


def anthropic_usage(usage: Mapping[str, Any]) -> dict[str, int]:
    """Convert OpenAI's token usage to Anthropic's, whose input excludes cached tokens."""
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
    return {
        "input_tokens": usage["prompt_tokens"] - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": usage["completion_tokens"],
    }


def complaint(body: Mapping[str, Any], version: str | None) -> str | None:
    """Return the vendor's error message for an invalid request, or None."""
    if not version:
        return "anthropic-version: header is required"
    if not isinstance(body.get("max_tokens"), int):
        return "max_tokens: Field required"
    if version >= "2026-10-21" and "temperature" in body:
        return "temperature: Extra inputs are not permitted"
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled" and thinking["budget_tokens"] >= body["max_tokens"]:
        return "`max_tokens` must be greater than `thinking.budget_tokens`."
    marks = json.dumps(body).count('"cache_control"')
    if marks > 4:
        return f"A maximum of 4 blocks with cache_control may be provided. Found {marks}."
    messages = body.get("messages") or []
    if thinking.get("type") == "enabled" and (fault := _about_last_reply(messages)):
        return fault
    return _about_messages(messages)


def as_openai(body: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the conversation to the OpenAI format that a mind reads."""
    messages: list[dict[str, Any]] = []
    for message in body["messages"]:
        blocks = message["content"]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        for block in blocks:
            if block["type"] == "tool_result":
                content = block.get("content", "")
                mapping = {"role": "tool", "tool_call_id": block["tool_use_id"], "content": content}
                messages.append(mapping)
        calls = [{"id": block["id"]} for block in blocks if block["type"] == "tool_use"]
        if texts or calls:
            result = {"role": message["role"], "content": "\n\n".join(texts)}
            messages.append(result | ({"tool_calls": calls} if calls else {}))
    return {**body, "messages": messages}


def _about_messages(messages: list[Any]) -> str | None:
    if not messages:
        return "messages: at least one message is required"
    expected: list[str] = []
    for n, message in enumerate(messages):
        blocks = message["content"]
        if message["role"] != ("user", "assistant")[n % 2] or not blocks:
            return f"messages.{n}: roles must alternate and content must not be empty"
        results = [block for block in blocks if block["type"] == "tool_result"]
        if [block["tool_use_id"] for block in results] != expected or blocks[
            : len(results)
        ] != results:
            return (
                f"messages.{n}: `tool_use` ids were found without `tool_result` blocks: {expected}"
            )
        expected = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for block in blocks:
            if fault := _about_block(block):
                return f"messages.{n}: {fault}"
    return "the last message must be the user's" if len(messages) % 2 == 0 else None


def _about_last_reply(messages: list[Any]) -> str | None:
    """Return an error unless a model with a thinking budget began its turn with a thought."""
    replies = [message["content"] for message in messages if message["role"] == "assistant"]
    kinds = [block["type"] for block in replies[-1]] if replies else []
    if "tool_use" in kinds and not kinds[0].endswith("thinking"):
        return f"Expected `thinking` or `redacted_thinking`, but found `{kinds[0]}`."
    return None


def _about_block(block: Mapping[str, Any]) -> str | None:
    match block["type"]:
        case "text" if not block["text"].strip():
            return "text content blocks must contain non-whitespace text"
        case "thinking" if block["signature"] != SIGNATURE:
            return "Invalid `signature` in `thinking` block"
        case "redacted_thinking" if block["data"] != REDACTED:
            return "Invalid `data` in `redacted_thinking` block"
        case "tool_use" if not _ID.fullmatch(block["id"]) or not isinstance(block["input"], dict):
            return "tool_use: String should match pattern '^[a-zA-Z0-9_-]+$'"
    return None


def _grown(start: Mapping[str, Any], deltas: list[dict[str, Any]]) -> dict[str, Any]:
    grown: dict[str, Any] = {}
    for delta in deltas:
        for name in ("text", "thinking", "signature"):
            if name in delta:
                grown[name] = grown.get(name, "") + delta[name]
    pieces = "".join(delta.get("partial_json", "") for delta in deltas)
    return grown | ({"input": json.loads(pieces or "{}")} if start["type"] == "tool_use" else {})


def _frame(data: Mapping[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
