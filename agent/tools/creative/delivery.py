"""Delivery of files made by a tool to the person."""

import re
import unicodedata
from pathlib import Path

from agent.tools.base import CallContext, FileDelivery
from agent.types import Artifact, ToolResult

_MAX_CHARS = 48
_NOT_PLAIN = re.compile(r"[^\w]+")


def plain_name(text: str, default: str) -> str:
    """Return a text as a file name without extension."""
    words = _NOT_PLAIN.sub("-", unicodedata.normalize("NFKC", text).casefold()).strip("-_")
    return words[:_MAX_CHARS].strip("-_") or default


def unused_path(folder: str, name: str, ending: str, root: Path) -> str:
    """Return an unused path relative to the workspace `root`."""
    path, n = f"{folder}/{name}{ending}", 1
    while (root / path).exists():
        n += 1
        path = f"{folder}/{name}-{n}{ending}"
    return path


def way_out(call: CallContext) -> tuple[str, ...]:
    """Return the hosts that count as reached when a file is sent: everyone in a group reads it."""
    return () if call.send is None or call.owner else ("this chat",)


async def delivered(path: Path, text: str, call: CallContext) -> ToolResult:
    """Send the file to the person if possible, and return the result."""
    artifact = Artifact("file", "", str(path))
    for_user = f"📎 {path}"
    if call.send is not None:
        sent = await call.send(FileDelivery((path,), ""), call)
        text = f"{text}\n{sent}"
    return ToolResult(text, for_user=for_user, artifacts=(artifact,))
