"""Files that a tool has made, on their way to the person."""

import re
import unicodedata
from pathlib import Path

from agent.tools.base import CallContext, FileDelivery
from agent.types import Artifact, ToolResult

_MOST_CHARS = 48
_NOT_PLAIN = re.compile(r"[^\w]+")


def plain_name(text: str, default: str) -> str:
    """A text as the name of a file, without an ending."""
    words = _NOT_PLAIN.sub("-", unicodedata.normalize("NFKC", text).casefold()).strip("-_")
    return words[:_MOST_CHARS].strip("-_") or default


def unused_path(folder: str, name: str, ending: str, root: Path) -> str:
    """A path from the workspace `root` on where nothing is yet."""
    path, n = f"{folder}/{name}{ending}", 1
    while (root / path).exists():
        n += 1
        path = f"{folder}/{name}-{n}{ending}"
    return path


def way_out(call: CallContext) -> tuple[str, ...]:
    """The hosts that count as reached when a file is sent: in a group everyone reads it."""
    return () if call.send is None or call.owner else ("this chat",)


async def delivered(path: Path, text: str, call: CallContext) -> ToolResult:
    """The result, once the file is with the person, where that is possible."""
    artifact = Artifact("file", "", str(path))
    for_user = f"📎 {path}"
    if call.send is not None:
        sent = await call.send(FileDelivery((path,), ""), call)
        text = f"{text}\n{sent}"
    return ToolResult(text, for_user=for_user, artifacts=(artifact,))
