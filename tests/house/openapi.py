"""Generator of the OpenAPI 3.1 description of the protocol, based on the table of calls.

`make schema` writes it to docs/openapi.json.
"""

import inspect
import json
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agent.types import Message
from agent.version import VERSION
from gateway.control.calls import Call, call_names, find_call
from gateway.control.protocol import PROTOCOL
from gateway.core.records import SessionEvent, WatchEvent

_SIMPLE = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    Path: "string",
}
_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "hint": {"type": ["string", "null"]},
            },
            "required": ["code", "message"],
        }
    },
    "required": ["error"],
}


def openapi() -> dict[str, Any]:
    """Return the description, including streams, which are calls of a connection."""
    schemas: dict[str, Any] = {
        "Error": _ERROR,
        "Event": {"type": "object", "properties": {"type": {"type": "string"}}},
        "Message": {"type": "object", "description": "as in events.schema.json"},
    }
    paths: dict[str, Any] = {
        "/v1/hello": {
            "get": {
                "summary": "The version of the protocol.",
                "security": [],
                "responses": {"200": {"description": "protocol and version"}},
            }
        },
        "/v1/connect": {
            "get": {
                "summary": "A WebSocket for many calls; protocol.md has its frames.",
                "responses": {"101": {"description": "the connection is open"}},
            }
        },
    }
    for name in call_names():
        call = find_call(name)
        assert call is not None
        paths[f"/v1/calls/{name}"] = {"post": _operation(call, schemas)}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Kore", "version": f"{PROTOCOL} (Kore {VERSION})"},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
        },
    }


def _operation(call: Call, schemas: dict[str, Any]) -> dict[str, Any]:
    parameters = call.signature.parameters
    value = _type_schema(call.result, schemas)
    if call.shape == "list":
        value = {"type": "array", "items": value}
    key = "item" if call.shape == "stream" else "value"
    answer = {"type": "object", "properties": {key: value}, "required": [key]}
    return {
        "operationId": call.name,
        "summary": call.summary,
        "x-scope": call.declaration.scope,
        "x-stream": call.shape == "stream",
        "requestBody": {
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {
                            name: _type_schema(kind, schemas)
                            for name, kind in call.arguments.items()
                        },
                        "required": [
                            name
                            for name, parameter in parameters.items()
                            if parameter.default is inspect.Parameter.empty
                        ],
                        "additionalProperties": False,
                    }
                }
            }
        },
        "responses": {
            "200": {"description": "done", "content": {"application/json": {"schema": answer}}},
            "default": {
                "description": "refused",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }


def _type_schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type."""
    if kind in (WatchEvent, SessionEvent):
        return {"$ref": "#/components/schemas/Event"}
    if kind is Message:
        return {"$ref": "#/components/schemas/Message"}
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]}
    if isinstance(kind, type) and is_dataclass(kind):
        return _record(kind, schemas)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_type_schema(part, schemas) for part in parts]}
    if origin in (Sequence, list) or (origin is tuple and parts[-1] is ...):
        return {"type": "array", "items": _type_schema(parts[0], schemas)}
    if origin is tuple:
        return {"type": "array", "prefixItems": [_type_schema(part, schemas) for part in parts]}
    if origin in (Mapping, dict):
        return {"type": "object", "additionalProperties": _type_schema(parts[1], schemas)}
    if kind is Any:
        return {}
    raise TypeError(f"{kind} has no schema")


def _record(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in schemas:
        hints = get_type_hints(kind)
        schema: dict[str, Any] = {"type": "object"}
        schemas[name] = schema
        schema["properties"] = {
            part.name: _type_schema(hints[part.name], schemas) for part in fields(kind)
        }
        schema["required"] = [
            part.name
            for part in fields(kind)
            if part.default is MISSING and part.default_factory is MISSING
        ]
    return {"$ref": f"#/components/schemas/{name}"}


if __name__ == "__main__":
    json.dump(openapi(), sys.stdout, indent=1)
    sys.stdout.write("\n")
