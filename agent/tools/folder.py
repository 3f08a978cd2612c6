"""`list_dir`: what is in a folder, with sizes."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.prompts import load
from agent.settings import ToolSettings
from agent.tools import disk
from agent.tools.arguments import parameters
from agent.tools.base import CallContext
from agent.tools.scope import Scope
from agent.types import Effect, JsonSchema, ToolResult

ENTRIES_PER_FOLDER = 50
ENTRIES_IN_ALL = 1_000
MAX_DEPTH = 5


Hidden = Callable[["os.DirEntry[str]"], bool]


class ListDir:
    """A tree of `depth` levels (1 to 5): folders first, then files with their sizes."""

    name: ClassVar[str] = "list_dir"
    effect: ClassVar[Effect] = "read"
    parameters: ClassVar[JsonSchema] = parameters(path="string?", depth="integer?")

    def __init__(self, settings: ToolSettings) -> None:
        self._scope = Scope(settings)
        self._limit_bytes = settings.output_limit_bytes

    @property
    def description(self) -> str:
        return load("tools/list_dir")

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        path = self._scope.find(args.get("path", "."), call)
        depth = min(max(1, int(args.get("depth", 1))), MAX_DEPTH)
        text = await disk.in_thread(lambda: self._listing(path, depth, call))
        return ToolResult(text)

    def _listing(self, path: Path, depth: int, call: CallContext) -> str:
        if not path.is_dir():
            kind = "is a file; use read_file" if path.exists() else "does not exist"
            raise ToolError(f"{path} {kind}.")
        lines: list[str] = []
        room = self._limit_bytes
        for line in self._walk(path, depth, "", self._scope.hidden(call)):
            room -= len(line.encode("utf-8", "replace")) + 1
            if len(lines) >= ENTRIES_IN_ALL or room < 0:
                lines.append("… (cut; list a folder further down)")
                break
            lines.append(line)
        return "\n".join(lines) if lines else f"{path} is empty."

    def _walk(self, folder: Path, depth: int, indent: str, hidden: Hidden) -> Iterator[str]:
        with disk.explained(folder), os.scandir(folder) as found:
            entries = [e for e in found if not hidden(e)]
        entries.sort(key=lambda e: (not _is_folder(e), e.name.casefold(), e.name))
        for entry in entries[:ENTRIES_PER_FOLDER]:
            # Names may hold line ends and bytes that are no text.
            name = entry.name.encode("utf-8", "replace").decode().replace("\n", "␤")
            if not _is_folder(entry):
                yield f"{indent}{name}{_size(entry)}"
                continue
            yield f"{indent}{name}/"
            if depth > 1:
                yield from self._walk(Path(entry.path), depth - 1, indent + "  ", hidden)
        if (more := len(entries) - ENTRIES_PER_FOLDER) > 0:
            yield f"{indent}... ({more} more)"


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    return entry.is_dir(follow_symlinks=False)


def _size(entry: "os.DirEntry[str]") -> str:
    try:
        if entry.is_symlink():
            return " -> " + os.readlink(entry.path).encode("utf-8", "replace").decode()
        size = float(entry.stat(follow_symlinks=False).st_size)
    except FileNotFoundError:
        # Removed between the listing of its folder and this look at it.
        return " (gone)"
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f" ({size:.0f} {unit})" if unit == "B" else f" ({size:.1f} {unit})"
        size /= 1000
    return f" ({size:.1f} TB)"
