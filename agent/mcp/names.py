"""Names of MCP tools as models are told them: `mcp__SERVER__TOOL`, at most 64 characters."""

import re
from collections.abc import Iterable
from hashlib import sha256

from agent.security.policy.base import SERVER_TOOLS

# Vendors allow so many characters in the name of a tool, and no dot.
_MOST_CHARS = 64
_DIGEST_CHARS = 8


def is_mcp_tool(name: str) -> bool:
    """Whether a tool of this name is a server's."""
    return name.startswith(SERVER_TOOLS)


def tool_names(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The name of each tool, a pair of its server and the server's name for it; a name that is cut,
    or that two tools would have, ends with a digest: the same in every run."""
    names: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    for server, tool in tools:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{SERVER_TOOLS}{server}__{tool}")
        if len(name) > _MOST_CHARS or name in taken:
            digest = sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()
            short = name[: _MOST_CHARS - _DIGEST_CHARS - 1]
            name = f"{short}_{digest[:_DIGEST_CHARS]}"
        names[server, tool] = name
        taken.add(name)
    return names
