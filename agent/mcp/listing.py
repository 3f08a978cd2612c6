"""What a server offers, as it was last seen: kept on disk, so that no server has to be started to
know its tools."""

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

# A definition that is longer is no tool that a model should be told of.
MOST_DEFINITION_BYTES = 64_000
MOST_DESCRIPTION_CHARS = 2_000
MOST_TOOLS = 1_000
_VERSION = 2
_NAME = re.compile(r"[!-~]{1,256}")


@frozen
class McpToolDefinition:
    """A tool by its server's name, and what the server says of it."""

    name: str
    description: str
    parameters: JsonSchema

    @property
    def digest(self) -> str:
        whole = json.dumps([self.name, self.description, self.parameters], sort_keys=True)
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


@frozen
class McpPrompt:
    """A prompt that people call as a command; `arguments`: names, and whether each is needed."""

    name: str
    description: str = ""
    arguments: tuple[tuple[str, bool], ...] = ()


@frozen
class ServerListing:
    """What a server offers. `protocol` is the version of the protocol that it speaks."""

    protocol: str = ""
    tools: tuple[McpToolDefinition, ...] = ()
    prompts: tuple[McpPrompt, ...] = ()
    has_resources: bool = False
    # Names of tools and prompts that could not be read.
    left_out: tuple[str, ...] = ()

    def has_tool(self, name: str) -> bool:
        """Whether the server itself has a tool of this name."""
        return any(tool.name == name for tool in self.tools)


@frozen
class AcceptedTools:
    """The tools of a server as its owner accepted them: as they were first seen, or later by
    `kore mcp test NAME --accept`. Only the owner changes them."""

    tools: Mapping[str, McpToolDefinition] = field(default_factory=dict)

    def of(self, tool: McpToolDefinition) -> McpToolDefinition | None:
        """Return the tool of the same name as it was accepted, or None."""
        return self.tools.get(tool.name)

    def has(self, tool: McpToolDefinition) -> bool:
        """Return whether the tool is exactly as it was accepted."""
        return self.of(tool) == tool


def tool_definition(name: str, description: str, schema: Any) -> McpToolDefinition | None:
    """A tool as a server describes it, made fit for models; None when it is too large, or has no
    name that can be shown."""
    parameters = plain_schema(schema)
    size = len(json.dumps(parameters, default=str).encode("utf-8", "surrogatepass"))
    if size > MOST_DEFINITION_BYTES or not _NAME.fullmatch(name):
        return None
    text = escape_invisible(description).strip()
    if len(text) > MOST_DESCRIPTION_CHARS:
        text = text[: MOST_DESCRIPTION_CHARS - 1] + "…"
    return McpToolDefinition(name, text, parameters)


def plain_schema(schema: Any) -> JsonSchema:
    """Return the schema of an object without references to elsewhere and infinite numbers."""
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
        return [_plain(each, depth + 1) for each in value if not _is_endless(each)]
    if not isinstance(value, dict):
        return value
    return {
        key: _plain(each, depth + 1)
        for key, each in value.items()
        if not _refers_elsewhere(key, each) and not _is_endless(each)
    }


def _refers_elsewhere(key: str, value: Any) -> bool:
    if key in ("$schema", "$id", "id"):
        return isinstance(value, str)
    is_reference = key in ("$ref", "$dynamicRef") and isinstance(value, str)
    return is_reference and not value.startswith("#")


def _is_endless(value: Any) -> bool:
    """Return whether JSON has no way to write the number: 1e999 is read as infinity."""
    return isinstance(value, float) and not math.isfinite(value)


def read_listing(path: Path, digest: str) -> ServerListing | None:
    """The listing of a server with this digest; None when there is none that can be read."""
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
    """Keep a listing. Raises OSError."""
    _write(path, {"version": _VERSION, "server": digest, "listing": asdict(listing)})


def read_accepted(path: Path, digest: str) -> AcceptedTools | None:
    """Return the accepted tools of the program or address with this digest, or None when nothing
    was accepted yet. Tools that cannot be read count as not accepted."""
    try:
        data = json.loads(path.read_bytes())
        if data["program"] != digest:
            return None
        tools = [McpToolDefinition(**tool) for tool in data["tools"]]
        return AcceptedTools({tool.name: tool for tool in tools})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as exc:
        log.warning("%s cannot be read (%s): none of the server's tools is accepted", path, exc)
        return AcceptedTools()


def write_accepted(path: Path, digest: str, accepted: AcceptedTools) -> None:
    """Keep accepted tools. Raises OSError."""
    tools = [asdict(tool) for tool in accepted.tools.values()]
    _write(path, {"program": digest, "tools": tools})


def _write(path: Path, data: Mapping[str, Any]) -> None:
    make_private_folder(path.parent)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(data, ensure_ascii=True), encoding="utf-8")
    partial.replace(path)
