"""Generator of the JSON schema for `--output-format stream-json`, based on the event types.

`make schema` writes it to docs/events.schema.json.
"""

import json
import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agent.types import Message
from gateway.core.records import WatchEvent

_SIMPLE = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    Path: "string",
}
# A stored message: docs/events.md describes it, agent/serialization.py writes it.
_MESSAGE = {
    "type": "object",
    "properties": {
        "role": {"enum": ["system", "user", "assistant", "tool"]},
        "content": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"type": {"type": "string"}},
                "required": ["type"],
            },
        },
        "tool_calls": {"type": "array", "items": {"type": "object"}},
        "tool_call_id": {"type": "string"},
        "is_error": {"type": "boolean"},
        "taint": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["role", "content"],
}


def schema() -> dict[str, Any]:
    """Return the schema of a line, which is exactly one of the events."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A line of kore agent --output-format stream-json",
        "oneOf": [_event(event) for event in get_args(WatchEvent)],
    }


def _event(cls: Any) -> dict[str, Any]:
    described = _object(cls)
    tag = {"type": {"const": cls.type}}
    return {
        **described,
        "properties": {**tag, **described["properties"]},
        "required": ["type", *described["required"]],
    }


def _object(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    # Readers of an older version's lines must tolerate missing newer fields.
    event_fields = [field for field in fields(cls) if field.metadata.get("in_events", True)]
    added = {field.name for field in event_fields if field.default is not MISSING}
    return {
        "type": "object",
        "properties": {field.name: _of(hints[field.name]) for field in event_fields},
        "required": [field.name for field in event_fields if field.name not in added],
    }


def _of(hint: Any) -> dict[str, Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    if hint is Any:
        return {}
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(item) for item in inner]}
    if origin is tuple:
        return {"type": "array", "items": _of(inner[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object"}
    if hint is Message:
        return _MESSAGE
    if is_dataclass(hint):
        return _object(hint)
    raise TypeError(f"an event has a field of type {hint}, which the schema cannot tell")


if __name__ == "__main__":
    json.dump(schema(), sys.stdout, indent=1)
    sys.stdout.write("\n")
