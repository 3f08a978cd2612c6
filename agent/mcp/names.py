"""Names of MCP tools for models: `mcp__SERVER__TOOL`, at most 64 characters."""

import re
from collections.abc import Iterable
from hashlib import sha256

from agent.security.policy.base import SERVER_TOOLS

# Limit of the model APIs for tool names, which also exclude dots.
_MAX_CHARS = 64
_DIGEST_CHARS = 8


def is_mcp_tool(name: str) -> bool:
    """Return whether a tool of this name belongs to a server."""
    return name.startswith(SERVER_TOOLS)


def tool_names(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return a unique name for each pair of server and tool.

    A name that is too long or already taken ends with a digest, which is the same in every run.
    """
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for server, tool in tools:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{SERVER_TOOLS}{server}__{tool}")
        if len(name) > _MAX_CHARS or name in taken:
            digest = sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()
            short = name[: _MAX_CHARS - _DIGEST_CHARS - 1]
            name = f"{short}_{digest[:_DIGEST_CHARS]}"
        names[server, tool] = name
        taken.add(name)
    return names
