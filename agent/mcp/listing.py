"""Listings of servers and accepted tools, stored on disk so that known tools need no server
start."""

import hashlib
import json
import logging
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from agent.records import frozen
from agent.security.files.private_folder import make_private_folder
from agent.text.visible import escape_invisible
from agent.types import JsonSchema

log = logging.getLogger(__name__)

# Larger definitions are left out.
MAX_DEFINITION_BYTES = 64_000
MAX_DESCRIPTION_CHARS = 2_000
MAX_TOOLS = 1_000
_VERSION = 3
_NAME = re.compile(r"[!-~]{1,256}")


@frozen
class McpToolDefinition:
    """Tool under its server's name, with the server's description."""

    name: str
    description: str
    parameters: JsonSchema

    @property
    def digest(self) -> str:
        definition = json.dumps([self.name, self.description, self.parameters], sort_keys=True)
        return hashlib.sha256(definition.encode("utf-8", "surrogatepass")).hexdigest()


@frozen
class McpPrompt:
    """Prompt that people call as a command.

    `arguments` are pairs of a name and whether it is required.
    """

    name: str
    description: str = ""
    arguments: tuple[tuple[str, bool], ...] = ()


@frozen
class ServerListing:
    """Tools and prompts of a server. `protocol` is its protocol version."""

    protocol: str = ""
    tools: tuple[McpToolDefinition, ...] = ()
    prompts: tuple[McpPrompt, ...] = ()
    has_resources: bool = False
    # Names of unreadable tools and prompts.
    left_out: tuple[str, ...] = ()

    def has_tool(self, name: str) -> bool:
        """Return whether the server itself has a tool with this name."""
        return any(tool.name == name for tool in self.tools)


@frozen
class AcceptedTools:
    """Tools of a server as accepted by the owner.

    The first list is accepted automatically, later lists by `kore mcp test NAME --accept`. Only the
    owner changes them.
    """

    tools: Mapping[str, McpToolDefinition] = field(default_factory=dict)

    def of(self, tool: McpToolDefinition) -> McpToolDefinition | None:
        """Return the accepted tool of the same name, or None."""
        return self.tools.get(tool.name)

    def has(self, tool: McpToolDefinition) -> bool:
        """Return whether the tool is exactly as accepted."""
        return self.of(tool) == tool


def tool_definition(name: str, description: str, schema: Any) -> McpToolDefinition | None:
    """Return a tool prepared for models, or None if it is too large or has an unprintable name."""
    parameters = plain_schema(schema)
    size = len(json.dumps(parameters, default=str).encode("utf-8", "surrogatepass"))
    if size > MAX_DEFINITION_BYTES or not _NAME.fullmatch(name):
        return None
    text = escape_invisible(description).strip()
    if len(text) > MAX_DESCRIPTION_CHARS:
        text = text[: MAX_DESCRIPTION_CHARS - 1] + "…"
    return McpToolDefinition(name, text, parameters)


def plain_schema(schema: Any) -> JsonSchema:
    """Return an object schema without external references and infinite numbers."""
    plain = _plain(schema, 0)
    if not isinstance(plain, dict) or plain.get("type", "object") != "object":
        return {"type": "object", "properties": {}}
    properties = plain.get("properties")
    return {
        **plain,
        "type": "object",
        "properties": properties if isinstance(properties, dict) else {},
    }


def _plain(value: Any, depth: int) -> Any:
    if depth > 40:
        return {}
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value if not _is_infinite(item)]
    if not isinstance(value, dict):
        return value
    return {
        key: _plain(item, depth + 1)
        for key, item in value.items()
        if not _is_external_reference(key, item) and not _is_infinite(item)
    }


def _is_external_reference(key: str, value: Any) -> bool:
    if key in ("$schema", "$id", "id"):
        return isinstance(value, str)
    is_reference = key in ("$ref", "$dynamicRef") and isinstance(value, str)
    return is_reference and not value.startswith("#")


def _is_infinite(value: Any) -> bool:
    """Return whether JSON cannot express the number: 1e999 is parsed as infinity."""
    return isinstance(value, float) and not math.isfinite(value)


def read_listing(path: Path, digest: str) -> ServerListing | None:
    """Return the stored listing of a server with this digest, or None if missing or unreadable."""
    try:
        data = json.loads(path.read_bytes())
        if data["version"] != _VERSION or data["server"] != digest:
            return None
        listing = data["listing"]
        return ServerListing(
            listing["protocol"],
            tuple(McpToolDefinition(**tool) for tool in listing["tools"]),
            tuple(
                McpPrompt(
                    prompt["name"],
                    prompt["description"],
                    tuple((name, needed) for name, needed in prompt["arguments"]),
                )
                for prompt in listing["prompts"]
            ),
            listing["has_resources"],
            tuple(listing["left_out"]),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as exc:
        log.warning("%s cannot be read (%s): the server is asked again", path, exc)
        return None


def write_listing(path: Path, digest: str, listing: ServerListing) -> None:
    """Store a listing. Raises `OSError`."""
    _write(path, {"version": _VERSION, "server": digest, "listing": asdict(listing)})


def read_accepted(path: Path, digest: str) -> AcceptedTools | None:
    """Return the accepted tools of the program or URL with this digest, or None before the first
    list.

    An unreadable file counts as no accepted tools.
    """
    try:
        data = json.loads(path.read_bytes())
        if data["program"] != digest:
            return None
        tools = [McpToolDefinition(**tool) for tool in data["tools"]]
        return AcceptedTools({tool.name: tool for tool in tools})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as exc:
        log.warning("%s cannot be read (%s): no tool of the server is accepted", path, exc)
        return AcceptedTools()


def write_accepted(path: Path, digest: str, accepted: AcceptedTools) -> None:
    """Store accepted tools. Raises `OSError`."""
    tools = [asdict(tool) for tool in accepted.tools.values()]
    _write(path, {"program": digest, "tools": tools})


def _write(path: Path, data: Mapping[str, Any]) -> None:
    make_private_folder(path.parent)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(data, ensure_ascii=True), encoding="utf-8")
    partial.replace(path)
