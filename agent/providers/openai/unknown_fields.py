"""Fields of a reply that Kore does not know, kept for the server that sent them.

A server may attach state to a reply or a tool call and refuse the next request without it: Gemini
its thought signatures as `extra_content` of a call, also behind other addresses, OpenRouter its
`reasoning_details`. All unknown fields are therefore stored with the reply, as the signature of an
empty `Thinking`, and sent back to the same server only.
https://ai.google.dev/gemini-api/docs/thought-signatures
https://openrouter.ai/docs/guides/best-practices/reasoning-tokens
"""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from agent.records import frozen
from agent.types import Thinking

log = logging.getLogger(__name__)

_MESSAGE_FIELDS = frozenset(
    {"role", "content", "refusal", "name", "tool_calls", "function_call"}
    | {"reasoning_content", "reasoning"}
)
_CALL_FIELDS = frozenset({"id", "type", "index", "function"})
_FUNCTION_FIELDS = frozenset({"name", "arguments"})
# Texts of a list's item that arrive in pieces.
_GROWING = ("text", "summary", "data")
_PREFIX = '{"unknown_fields"'
# Enough for long reasoning; generated pictures are larger.
_MAX_CHARS = 200_000


class UnknownFields:
    """Collector of the unknown fields in the pieces of a stream."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._calls: dict[str, dict[str, Any]] = {}

    def add_to_message(self, delta: Mapping[str, Any]) -> None:
        _merge(self._message, delta, _MESSAGE_FIELDS)

    def add_to_call(self, call_id: str, delta: Mapping[str, Any]) -> None:
        fields = self._calls.setdefault(call_id, {})
        _merge(fields, delta, _CALL_FIELDS)
        function = delta.get("function")
        if isinstance(function, dict) and not function.keys() <= _FUNCTION_FIELDS:
            _merge(fields.setdefault("function", {}), function, _FUNCTION_FIELDS)

    def signature(self, server: str) -> str | None:
        """Return the fields as the signature of an empty `Thinking`; None without any."""
        message = _without_large(self._message)
        calls = {call_id: _without_large(fields) for call_id, fields in self._calls.items()}
        calls = {call_id: fields for call_id, fields in calls.items() if fields}
        if not (message or calls):
            return None
        fields = {"server": server, "message": message, "calls": calls}
        return json.dumps({"unknown_fields": fields})


@frozen
class ReplayedFields:
    """Fields to send back: of the message, and of its tool calls by their id."""

    message: Mapping[str, Any] = field(default_factory=dict)
    calls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def replayed_fields(thoughts: Iterable[Thinking], server: str) -> ReplayedFields:
    """Return the fields that this server sent with a reply."""
    for thought in thoughts:
        if thought.signature and thought.signature.startswith(_PREFIX):
            fields = json.loads(thought.signature)["unknown_fields"]
            if fields["server"] == server:
                return ReplayedFields(fields["message"], fields["calls"])
    return ReplayedFields()


def _merge(fields: dict[str, Any], delta: Mapping[str, Any], ignored: frozenset[str]) -> None:
    """Add what a piece of the stream brings.

    Numbers and booleans describe the piece, such as its token, and not the reply.
    """
    for name, value in delta.items():
        if name in ignored or not isinstance(value, dict | list | str) or not value:
            continue
        before = fields.get(name)
        if isinstance(value, list) and isinstance(before, list):
            value = _joined([*before, *value])
        elif isinstance(value, list):
            value = _joined(value)
        elif isinstance(value, dict) and isinstance(before, dict):
            value = {**before, **value}
        fields[name] = value


def _joined(items: Iterable[Any]) -> list[Any]:
    """Return the items of a list, those with the same index and type as one, and none twice."""
    joined: list[Any] = []
    for item in items:
        block = next((other for other in joined if _is_same_block(other, item)), None)
        if block is not None:
            _grow(block, item)
        elif item not in joined:
            joined.append(dict(item) if isinstance(item, dict) else item)
    return joined


def _is_same_block(first: Any, second: Any) -> bool:
    if not (isinstance(first, dict) and isinstance(second, dict)):
        return False
    has_index = first.get("index") is not None
    return has_index and all(first.get(name) == second.get(name) for name in ("index", "type"))


def _grow(block: dict[str, Any], piece: Mapping[str, Any]) -> None:
    for name, value in piece.items():
        before = block.get(name)
        if name in _GROWING and isinstance(before, str) and isinstance(value, str):
            block[name] = before + value
        elif value is not None or name not in block:
            block[name] = value


def _without_large(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are small enough to be sent with every request."""
    small = {}
    for name, value in fields.items():
        if value and len(json.dumps(value)) <= _MAX_CHARS:
            small[name] = value
        elif value:
            log.warning("the field %s of a model's reply is too large to be sent back", name)
    return small
