"""Places in files: parsed from a server's answer and listed for the model."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agent.code.lsp.documents import read_document
from agent.code.lsp.protocol.positions import Encoding, TextLines, path_of
from agent.errors import ToolError
from agent.records import frozen
from agent.security.taint.file_marks import ShownPaths
from agent.text.visible import escape_line
from agent.tools.base import CallContext
from agent.tools.files.workspace_scope import VisibleFiles, WorkspaceScope

MAX_PLACES = 100
_MAX_LINE_CHARS = 200
_MAX_RAW = 5_000


@frozen
class Place:
    """Position in a file in the server's units: from 0, in its encoding."""

    path: Path
    line: int
    character: int
    label: str = ""


def places_of(result: Any) -> list[Place]:
    """Parse an answer that is a location, a list of locations, or links."""
    items = result if isinstance(result, list) else [result]
    return [place for item in items[:_MAX_RAW] if (place := place_of(item)) is not None]


def place_of(item: Any, label: str = "") -> Place | None:
    """Parse a `Location` or `LocationLink`; None for other shapes and non-file URIs."""
    if not isinstance(item, dict):
        return None
    path = path_of(item.get("uri", item.get("targetUri")))
    spot: Any = item.get("targetSelectionRange") or item.get("range") or item.get("targetRange")
    try:
        start = spot["start"]
        line, character = int(start["line"]), int(start["character"])
    except (TypeError, KeyError, ValueError, OverflowError):
        return None
    if path is None or line < 0 or character < 0:
        return None
    return Place(path, line, character, label)


class PlaceListing:
    """Formatter of places for the model.

    Lines are quoted only from files that the call may read; places outside the project get a path
    and line number. Blocks: use it in a thread.
    """

    def __init__(self, scope: WorkspaceScope, call: CallContext, encoding: Encoding) -> None:
        self._visible_files = VisibleFiles(scope, call, call.workspace)
        self._encoding = encoding
        self._texts: dict[Path, TextLines | None] = {}
        self._shown_paths = ShownPaths(self._visible_files.root)

    @property
    def is_marked(self) -> bool:
        """True if a listed file or its name is untrusted."""
        return self._shown_paths.is_marked

    def write(self, places: Iterable[Place]) -> list[str]:
        """Return a sorted line for each place that the call may see."""
        ordered = sorted(
            set(places), key=lambda place: (str(place.path), place.line, place.character)
        )
        lines = list(self._lines(ordered[:MAX_PLACES]))
        if len(ordered) > MAX_PLACES:
            lines.append(f"… ({len(ordered) - MAX_PLACES:,} more)")
        return lines

    def _lines(self, places: Iterable[Place]) -> Iterator[str]:
        for place in places:
            is_inside = place.path.is_relative_to(self._visible_files.root)
            name = self._visible_files.display_path(place.path)
            label = f" {escape_line(place.label[:_MAX_LINE_CHARS])}" if place.label else ""
            if not is_inside:
                yield f"{escape_line(name)}:{place.line + 1}{label} (outside of the project)"
                continue
            text = self._text(place.path)
            if text is None:
                continue
            line = escape_line(text.line(place.line).strip())
            line = line if len(line) <= _MAX_LINE_CHARS else f"{line[:_MAX_LINE_CHARS]}…"
            yield f"{escape_line(name)}:{place.line + 1}{label}: {line}"

    def _text(self, path: Path) -> TextLines | None:
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def _read(self, path: Path) -> TextLines | None:
        # A path from a server may be a link that leads elsewhere.
        if os.path.realpath(path) != str(path):
            return None
        if self._visible_files.find_named(str(path.relative_to(self._visible_files.root))) is None:
            return None
        try:
            text, _ = read_document(path)
        except ToolError:
            return None
        self._shown_paths.add(path)
        return TextLines(text)
