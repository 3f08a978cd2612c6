"""Where things are, as a server answers and as a model reads: path, line, and the line's text."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agent.code.lsp.protocol.positions import Encoding, TextLines
from agent.code.lsp.protocol.uris import path_of
from agent.errors import ToolError
from agent.records import frozen
from agent.security.taint.file_marks import ShownPaths
from agent.text.visible import escape_line
from agent.tools.base import CallContext
from agent.tools.files.workspace_scope import VisibleFiles, WorkspaceScope

MOST_PLACES = 100
_LINE_CHARS = 200
_MOST_RAW = 5_000


@frozen
class Place:
    """A position as the server counts (from 0, in its encoding), in a file."""

    path: Path
    line: int
    character: int
    label: str = ""


def places_of(result: Any) -> list[Place]:
    """The places in a server's answer: one or many locations, or links."""
    items = result if isinstance(result, list) else [result]
    return [place for item in items[:_MOST_RAW] if (place := place_of(item)) is not None]


def place_of(item: Any, label: str = "") -> Place | None:
    """A `Location` or `LocationLink`; None for what has another shape, or is no file."""
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
    """Writes places down. Lines are shown of files that the call may read; of others only where
    they are. Blocks: use it in a thread."""

    def __init__(self, scope: WorkspaceScope, call: CallContext, encoding: Encoding) -> None:
        self._sight = VisibleFiles(scope, call, call.workspace)
        self._encoding = encoding
        self._texts: dict[Path, TextLines | None] = {}
        self._shown_paths = ShownPaths(self._sight.root)

    @property
    def is_marked(self) -> bool:
        """Whether a file that is shown, or its name, was written by strangers."""
        return self._shown_paths.is_marked

    def write(self, places: Iterable[Place]) -> list[str]:
        """A line each, sorted, without those that the call must not know of."""
        ordered = sorted(set(places), key=lambda one: (str(one.path), one.line, one.character))
        lines = list(self._lines(ordered[:MOST_PLACES]))
        if len(ordered) > MOST_PLACES:
            lines.append(f"… ({len(ordered) - MOST_PLACES:,} more)")
        return lines

    def _lines(self, places: Iterable[Place]) -> Iterator[str]:
        for place in places:
            is_inside = place.path.is_relative_to(self._sight.root)
            name = self._sight.display_path(place.path)
            label = f" {escape_line(place.label[:_LINE_CHARS])}" if place.label else ""
            if not is_inside:
                yield f"{escape_line(name)}:{place.line + 1}{label} (outside of the project)"
                continue
            text = self._text(place.path)
            if text is None:
                continue
            line = escape_line(text.line(place.line).strip())
            line = line if len(line) <= _LINE_CHARS else f"{line[:_LINE_CHARS]}…"
            yield f"{escape_line(name)}:{place.line + 1}{label}: {line}"

    def _text(self, path: Path) -> TextLines | None:
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def _read(self, path: Path) -> TextLines | None:
        from agent.code.lsp.documents import read_document

        # What a server names may be a link that leads elsewhere.
        if os.path.realpath(path) != str(path):
            return None
        if self._sight.find_named(str(path.relative_to(self._sight.root))) is None:
            return None
        try:
            text, _ = read_document(path)
        except ToolError:
            return None
        self._shown_paths.add(path)
        return TextLines(text)
