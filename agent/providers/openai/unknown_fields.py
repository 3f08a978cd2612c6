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
_NAME = "unknown_fields"
_PREFIX = f'{{"{_NAME}"'
# Limit for all fields of a reply: enough for long reasoning; generated pictures are larger.
_MAX_CHARS = 200_000


class UnknownFields:
    """Collector of the unknown fields in the pieces of a stream."""

    def __init__(self) -> None:
        self._message = _Collector(_MESSAGE_FIELDS)
        self._calls: dict[str, _Collector] = {}
        self._functions: dict[str, _Collector] = {}

    def add_to_message(self, delta: Mapping[str, Any]) -> None:
        self._message.add(delta)

    def add_to_call(self, call_id: str, delta: Mapping[str, Any]) -> None:
        self._calls.setdefault(call_id, _Collector(_CALL_FIELDS)).add(delta)
        if isinstance(function := delta.get("function"), dict):
            self._functions.setdefault(call_id, _Collector(_FUNCTION_FIELDS)).add(function)

    def signature(self, server: str) -> str | None:
        """Return the fields as the signature of an empty `Thinking`.

        None without any, and when they are larger than what can be sent with every request.
        """
        calls = {call_id: call.fields() for call_id, call in self._calls.items()}
        for call_id, function in self._functions.items():
            if fields := function.fields():
                calls.setdefault(call_id, {})["function"] = fields
        calls = {call_id: fields for call_id, fields in calls.items() if fields}
        message = self._message.fields()
        if not (message or calls):
            return None
        try:
            text = json.dumps(
                {_NAME: {"server": server, "message": message, "calls": calls}}, allow_nan=False
            )
        except (ValueError, RecursionError):
            return None
        if len(text) > _MAX_CHARS:
            log.warning("the unknown fields of a model's reply are too large to be sent back")
            return None
        return text


@frozen
class ReplayedFields:
    """Fields to send back: of the message, and of its tool calls by their id."""

    message: Mapping[str, Any] = field(default_factory=dict)
    calls: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def replayed_fields(thoughts: Iterable[Thinking], server: str) -> ReplayedFields:
    """Return the fields that this server sent with a reply; none for the server ''.

    Fields that Kore writes itself are never among them, whoever wrote the signature.
    """
    for thought in thoughts:
        fields = _read(thought.signature)
        if server and fields.get("server") == server:
            calls = _object(fields.get("calls"))
            return ReplayedFields(
                _unknown(fields.get("message"), _MESSAGE_FIELDS),
                {call_id: _call_fields(call) for call_id, call in calls.items()},
            )
    return ReplayedFields()


def has_unknown_fields(thoughts: Iterable[Thinking], server: str) -> bool:
    return any(_read(thought.signature).get("server") == server for thought in thoughts)


def _read(signature: str | None) -> dict[str, Any]:
    """Return the content of a signature; empty for one of another form."""
    if not signature or not signature.startswith(_PREFIX):
        return {}
    try:
        return _object(json.loads(signature)[_NAME])
    except (ValueError, RecursionError):
        return {}


def _call_fields(call: Any) -> dict[str, Any]:
    fields = _unknown(call, _CALL_FIELDS)
    if function := _unknown(_object(call).get("function"), _FUNCTION_FIELDS):
        fields["function"] = function
    return fields


def _unknown(fields: Any, ignored: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in _object(fields).items() if name not in ignored}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class _Collector:
    """The unknown fields of a message, a call or a function.

    A field whose pieces cannot be joined with certainty is left out: a text that arrives twice with
    different content may be a text in pieces, or a new value.
    """

    def __init__(self, ignored: frozenset[str]) -> None:
        self._ignored = ignored
        self._values: dict[str, Any] = {}
        self._left_out: set[str] = set()
        self._blocks: dict[tuple[str, str], dict[str, Any]] = {}
        self._chars = 0

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add what a piece of the stream brings.

        Numbers and booleans describe the piece, such as its token, and not the reply.
        """
        for name, value in delta.items():
            is_state = isinstance(value, dict | list | str) and bool(value)
            if not is_state or name in self._ignored or name in self._left_out:
                continue
            if not self._join(name, value) or self._chars > _MAX_CHARS:
                self._left_out.add(name)
                self._values.pop(name, None)

    def fields(self) -> dict[str, Any]:
        return dict(self._values)

    def _join(self, name: str, value: Any) -> bool:
        """Return whether the value could be joined with the earlier pieces of its field."""
        before = self._values.get(name)
        if isinstance(value, list) and isinstance(before, list | None):
            # Equal pieces of a block are two pieces of its text.
            if value != before or any(map(_has_index, value)):
                self._extend(name, value)
            return True
        if before == value:
            return True
        self._chars += len(str(value))
        if before is None:
            self._values[name] = value
            return True
        if isinstance(value, dict) and isinstance(before, dict):
            self._values[name] = {**before, **value}
            return all(before[key] == value[key] for key in before.keys() & value.keys())
        return False

    def _extend(self, name: str, items: list[Any]) -> None:
        """Add the items of a list; those with the same index and type are pieces of one."""
        values = self._values.setdefault(name, [])
        for item in items:
            if not _has_index(item):
                self._chars += len(str(item))
                values.append(item)
                continue
            place = (name, repr((item["index"], item.get("type"))))
            if place not in self._blocks:
                self._blocks[place] = {}
                values.append(self._blocks[place])
            self._grow(self._blocks[place], item)

    def _grow(self, block: dict[str, Any], piece: Mapping[str, Any]) -> None:
        """Add a piece to its block; what every piece repeats is counted once."""
        for name, value in piece.items():
            before = block.get(name)
            if name in _GROWING and isinstance(before, str) and isinstance(value, str):
                block[name] = before + value
                self._chars += len(value)
            elif value != before and (value is not None or name not in block):
                block[name] = value
                self._chars += len(str(value))


def _has_index(item: Any) -> bool:
    return isinstance(item, dict) and item.get("index") is not None
