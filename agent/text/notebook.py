"""Jupyter notebooks as editable text: the sources of their cells, without outputs.

A line such as `[cell 3: code]` begins each cell, and its source follows. In an edited text, `[new
cell: code]` begins a new cell; a cell whose line is missing is deleted, and the order of the lines
is the order of the cells. Only what has changed is written to the JSON of the file: the bytes of
all other cells, their outputs and the metadata are unchanged.
"""

import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from agent.errors import ToolError
from agent.records import frozen
from agent.text.text_document import Document, TextFormat, line_ending

D = TypeVar("D", bound=Document)

SUFFIX = ".ipynb"
_MARKER = re.compile(r"\[(?:cell (\d+)|new cell): (code|markdown|raw)\][ \t]*")
# A source line that looks like the beginning of a cell gets a backslash in front of it.
_LIKE_MARKER = re.compile(rf"\\*{_MARKER.pattern}")
_TYPES = ("code", "markdown", "raw")
_SPACE = re.compile(r"[ \t\r\n]*")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_JSON = json.JSONDecoder()
# The first version 4.x whose cells have ids.
_FIRST_MINOR_WITH_IDS = 5
_EMPTY = '{\n "cells": [],\n "metadata": {},\n "nbformat": 4,\n "nbformat_minor": 5\n}\n'


@frozen
class _Value:
    """Value in a JSON text, and its position."""

    value: Any
    start: int
    end: int


@frozen
class NotebookCell:
    """Cell of a notebook, and its position in the JSON."""

    members: Mapping[str, _Value]
    start: int
    end: int

    @property
    def type(self) -> str:
        return str(self.members["cell_type"].value)

    @property
    def source(self) -> str:
        return "".join(self.members["source"].value)

    @property
    def outputs(self) -> Sequence[Any]:
        outputs = self.members.get("outputs")
        return outputs.value if outputs is not None and isinstance(outputs.value, list) else ()


@frozen
class _EditedCell:
    """Cell of an edited text; `number` is None for a new cell."""

    number: int | None
    type: str
    source: str


class _NotANotebook(ValueError):
    """JSON that is not a notebook of a known form."""


@frozen
class Notebook(Document):
    """Notebook whose `text` shows its cells; `json_text` is the text of the file.

    `cells_span` is the position of the list of cells.
    """

    json_text: str
    cells: tuple[NotebookCell, ...]
    cells_span: tuple[int, int]
    has_ids: bool

    def encode(self) -> bytes:
        """Return the file's bytes with the changes of the text. Raises `ToolError`."""
        return Document(_with_changes(self), self.form).encode()

    def renumbered(self) -> Document:
        """Return the notebook as it is read after the changes of the text were written."""
        return _read(Document(_with_changes(self), self.form))

    def last_lines(self) -> Sequence[int]:
        """Return the number of the last line of each cell in `text`, from 1."""
        lengths = (1 + len(_source_lines(cell.source)) for cell in self.cells)
        return list(accumulate(lengths))


def open_cells(document: Document, path: Path) -> Document:
    """Return a notebook's document as `Notebook`, and any other document unchanged.

    Notebooks before version 4 and damaged notebooks remain text.
    """
    if path.suffix != SUFFIX or isinstance(document, Notebook):
        return document
    try:
        return _read(document)
    except (ValueError, RecursionError):
        return document


def replace_cells(document: Document | None, path: Path, text: str) -> Notebook | None:
    """Return the notebook, or a new one, with cells written as `text`; None for other texts."""
    if path.suffix != SUFFIX or not _MARKER.fullmatch(text.lstrip().partition("\n")[0]):
        return None
    old = document if document is not None and document.text.strip() else None
    notebook = open_cells(old or Document(_EMPTY, TextFormat()), path)
    if not isinstance(notebook, Notebook):
        raise ToolError(f"{path} is not a valid notebook; move or repair it first.")
    return with_text(notebook, text)


def with_text(document: D, text: str) -> D:
    """Return the document with another text.

    Raises `ToolError` if the text cannot be written to the cells of a notebook.
    """
    changed = replace(document, text=text)
    if isinstance(changed, Notebook):
        _parse(text, len(changed.cells))
    return changed


def _text_of(cells: Sequence[NotebookCell]) -> str:
    lines: list[str] = []
    for number, cell in enumerate(cells, 1):
        lines.append(f"[cell {number}: {cell.type}]")
        lines += _source_lines(cell.source)
    return "".join(f"{line}\n" for line in lines)


def _source_lines(source: str) -> list[str]:
    if not source:
        return []
    return [f"\\{line}" if _LIKE_MARKER.fullmatch(line) else line for line in source.split("\n")]


def _parse(text: str, count: int) -> list[_EditedCell]:
    """Return the cells of a text about a notebook of `count` cells. Raises `ToolError`."""
    edited: list[tuple[int | None, str, list[str]]] = []
    lines = text.split("\n")
    for line in lines[:-1] if lines[-1] == "" else lines:
        if match := _MARKER.fullmatch(line):
            edited.append((int(match[1]) if match[1] else None, match[2], []))
        elif edited:
            edited[-1][2].append(line[1:] if _LIKE_MARKER.fullmatch(line) else line)
        elif line.strip():
            raise ToolError(
                "The text before the first cell belongs to no cell; begin it with a line "
                "[new cell: code] or [new cell: markdown]."
            )
    numbers: set[int] = set()
    for number in (number for number, _, _ in edited if number is not None):
        if not 0 < number <= count:
            raise ToolError(f"There is no cell {number}; a new cell begins with [new cell: TYPE].")
        if number in numbers:
            raise ToolError(f"[cell {number}: …] occurs twice; a copy begins with [new cell: …].")
        numbers.add(number)
    return [_EditedCell(number, kind, "\n".join(source)) for number, kind, source in edited]


def _with_changes(notebook: Notebook) -> str:
    """Return the JSON with the changes of the text."""
    cells, text = notebook.cells, notebook.json_text
    if notebook.text == _text_of(cells):
        return text
    layout = _Layout.of(text)
    edited = _parse(notebook.text, len(cells))
    ids = {str(cell.members["id"].value) for cell in cells if "id" in cell.members}
    parts = [_cell_text(cell, notebook, layout, ids) for cell in edited]
    if [cell.number for cell in edited] == list(range(1, len(cells) + 1)):
        spans = [(cell.start, cell.end) for cell in cells]
        return _spliced(text, zip(spans, parts, strict=True))
    start, end = notebook.cells_span
    if not parts:
        return f"{text[:start]}[]{text[end:]}"
    head, tail = layout.around_cells
    separator = f",{head}" if layout.indent else ", "
    if cells:
        head, tail = text[start + 1 : cells[0].start], text[cells[-1].end : end - 1]
        separator = text[cells[0].end : cells[1].start] if len(cells) > 1 else f",{head}"
    return f"{text[:start]}[{head}{separator.join(parts)}{tail}]{text[end:]}"


def _spliced(text: str, parts: Iterable[tuple[tuple[int, int], str]]) -> str:
    """Return the text with the given spans, in order, replaced."""
    pieces, at = [], 0
    for (start, end), part in parts:
        pieces += [text[at:start], part]
        at = end
    return "".join([*pieces, text[at:]])


def _cell_text(edited: _EditedCell, notebook: Notebook, layout: "_Layout", ids: set[str]) -> str:
    if edited.number is None:
        members = {"id": _new_id(ids)} if notebook.has_ids else {}
        source = edited.source.rstrip("\n")
        return layout.dump(_new_members(edited.type, _lines(source), members), depth=2)
    cell = notebook.cells[edited.number - 1]
    text, old = notebook.json_text, cell.members["source"]
    # Blank lines before the next cell do not belong to this one.
    keeps_end = cell.source.endswith("\n")
    source = edited.source if keeps_end else edited.source.rstrip("\n")
    new_value = source if isinstance(old.value, str) else _lines(source)
    if edited.type != cell.type:
        members = {key: member.value for key, member in cell.members.items()}
        return layout.dump(_new_members(edited.type, new_value, members), depth=2)
    if source == cell.source:
        return text[cell.start : cell.end]
    return text[cell.start : old.start] + layout.dump(new_value, 3) + text[old.end : cell.end]


def _new_members(
    cell_type: str, source: str | list[str], old: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the members of a new cell, or of one whose type changes, in the usual order."""
    runs: Mapping[str, Any] = (
        {"execution_count": None, "outputs": []} if cell_type == "code" else {}
    )
    members = {"cell_type": cell_type, "source": source, "metadata": {}, **runs}
    members |= {key: old[key] for key in ("id", "metadata") if key in old}
    return dict(sorted(members.items()))


def _lines(source: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+\Z", source)


def _new_id(ids: set[str]) -> str:
    while (cell_id := secrets.token_hex(4)) in ids:
        pass
    ids.add(cell_id)
    return cell_id


@frozen
class _Layout:
    """Layout of the JSON in a file; `indent` is empty if it is written in one line."""

    indent: str
    newline: str
    ascii_only: bool

    @staticmethod
    def of(text: str) -> "_Layout":
        match = re.match(r"\s*\{[ \t]*\r?\n([ \t]+)", text)
        ascii_only = text.isascii() and re.search(r"\\u[0-9a-fA-F]{4}", text) is not None
        return _Layout(match[1] if match else "", line_ending(text), ascii_only)

    @property
    def around_cells(self) -> tuple[str, str]:
        """White space after the bracket that opens the list of cells, and before its end."""
        if not self.indent:
            return "", ""
        return self.newline + 2 * self.indent, self.newline + self.indent

    def dump(self, value: Any, depth: int) -> str:
        """Return JSON for a value whose first line is indented `depth` times."""
        text = json.dumps(value, indent=self.indent or None, ensure_ascii=self.ascii_only)
        return text.replace("\n", self.newline + depth * self.indent) if self.indent else text


def _read(document: Document) -> Notebook:
    """Return the notebook in a text. Raises `ValueError` if the text is none of a known form."""
    text = document.text
    top, end = _members(text, _skip_space(text, 0))
    version = [top[key].value for key in ("nbformat", "nbformat_minor") if key in top]
    if text[end:].strip() or len(version) < 2 or version[0] != 4 or "cells" not in top:
        raise _NotANotebook
    cells, span = [], (top["cells"].start, top["cells"].end)
    at = _after(text, span[0], "[")
    while text[at] != "]":
        members, cell_end = _members(text, at)
        cells.append(NotebookCell(members, at, cell_end))
        _check(cells[-1])
        at = _next_item(text, cell_end, "]")
    has_ids = isinstance(version[1], int) and version[1] >= _FIRST_MINOR_WITH_IDS
    return Notebook(_text_of(cells), document.form, text, tuple(cells), span, has_ids)


def _check(cell: NotebookCell) -> None:
    """Raise `ValueError` for a cell that cannot be shown and edited as text."""
    if not cell.members.keys() >= {"cell_type", "source"} or cell.type not in _TYPES:
        raise _NotANotebook
    source = cell.members["source"].value
    parts = [source] if isinstance(source, str) else source
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        raise _NotANotebook
    if _SURROGATE.search(cell.source):
        raise _NotANotebook


def _members(text: str, at: int) -> tuple[Mapping[str, _Value], int]:
    """Return the members of the JSON object at a position, and its end.

    Raises `ValueError` for anything else, and for an object with a repeated key.
    """
    members: dict[str, _Value] = {}
    at = _after(text, at, "{")
    while text[at] != "}":
        key, key_end = _JSON.raw_decode(text, at)
        start = _after(text, _skip_space(text, key_end), ":")
        value, end = _JSON.raw_decode(text, start)
        if not isinstance(key, str) or key in members:
            raise _NotANotebook
        members[key] = _Value(value, start, end)
        at = _next_item(text, end, "}")
    return members, at + 1


def _next_item(text: str, at: int, last: str) -> int:
    """Return the position of the next item after an item that ends at `at`, or of the `last`
    character.
    """
    at = _skip_space(text, at)
    return at if text[at : at + 1] == last else _after(text, at, ",")


def _after(text: str, at: int, sign: str) -> int:
    """Return the position after a character and the space that follows it. Raises `ValueError`."""
    if text[at : at + 1] != sign:
        raise _NotANotebook
    at = _skip_space(text, at + 1)
    if at == len(text):
        raise _NotANotebook
    return at


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
