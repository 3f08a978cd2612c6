"""The patch format that some models were trained with: parsed, and applied to a file's text.

    *** Begin Patch
    *** Update File: src/a.py
    *** Move to: src/b.py
    @@ def total():
     context
    -removed
    +added
    *** Add File: src/c.py
    +its lines
    *** Delete File: src/d.py
    *** End Patch

Format: https://developers.openai.com/cookbook/examples/gpt4-1_prompting_guide
"""

from collections.abc import Iterator
from typing import Literal

from agent.errors import ToolError
from agent.records import frozen
from agent.tools.files.edit_matching import Span, closest_lines, find_spans, splice

_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_MOVE = "*** Move to: "
_HEADS: dict[str, Literal["add", "delete", "update"]] = {
    "*** Add File: ": "add",
    "*** Delete File: ": "delete",
    "*** Update File: ": "update",
}


@frozen
class Hunk:
    """Lines to find and what takes their place, both with line ends; `anchors` are lines that stand
    somewhere before. `at_end`: it is about the end of the file."""

    old: str
    new: str
    anchors: tuple[str, ...] = ()
    at_end: bool = False


@frozen
class FilePatch:
    """What happens to one file; `content` is a new file's. `target`: where it is moved to."""

    kind: Literal["add", "delete", "update"]
    path: str
    content: str = ""
    target: str | None = None
    hunks: tuple[Hunk, ...] = ()


def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """Raises ToolError, which names the line."""
    lines = text.strip().replace("\r\n", "\n").split("\n")
    if lines[0].strip() != _BEGIN:
        raise ToolError(f"The patch must begin with {_BEGIN!r}, found {lines[0][:80]!r}.")
    if lines[-1].strip() != _END:
        raise ToolError(f"The patch is incomplete: its last line must be {_END!r}.")
    patches = tuple(_files(lines[1:-1]))
    if not patches:
        raise ToolError("The patch names no file; write '*** Update File: PATH', for example.")
    return patches


def apply_hunks(text: str, hunks: tuple[Hunk, ...], name: str) -> str:
    """The text after all of them, in their order. Raises ToolError where one does not fit."""
    plain = text.replace("\r\n", "\n")
    spans: list[Span] = []
    cursor = 0
    for number, hunk in enumerate(hunks, 1):
        for anchor in hunk.anchors:
            cursor = _behind(plain, anchor, cursor)
        span = _place(plain, hunk, cursor)
        if span is None:
            raise ToolError(
                f"Hunk {number} of {len(hunks)} was not found in {name}; nothing was changed."
                f"{closest_lines(plain, hunk.old)}"
            )
        spans.append(span)
        cursor = span.end
    return splice(text, spans)


def _files(lines: list[str]) -> Iterator[FilePatch]:
    if not lines:
        return
    starts = [n for n, line in enumerate(lines) if line.startswith(tuple(_HEADS))]
    if not starts or starts[0] > 0:
        raise ToolError(f"Line 2 of the patch names no file: {lines[0][:80]!r}.")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        head = next(head for head in _HEADS if lines[start].startswith(head))
        yield _file(_HEADS[head], lines[start][len(head) :].strip(), lines[start + 1 : end])


def _file(kind: Literal["add", "delete", "update"], path: str, lines: list[str]) -> FilePatch:
    if kind == "delete":
        return FilePatch(kind, path)
    if kind == "add":
        if wrong := next((line for line in lines if line and line[0] != "+"), None):
            raise ToolError(f"{path}: lines of a new file must begin with '+', not {wrong[:80]!r}.")
        return FilePatch(kind, path, "".join(f"{line[1:]}\n" for line in lines))
    target = None
    if lines and lines[0].startswith(_MOVE):
        target = lines[0].removeprefix(_MOVE).strip()
        lines = lines[1:]
    hunks = tuple(_hunks(path, lines))
    if not hunks and target is None:
        raise ToolError(f"The patch changes nothing in {path}.")
    return FilePatch(kind, path, target=target, hunks=hunks)


def _hunks(path: str, lines: list[str]) -> Iterator[Hunk]:
    anchors: list[str] = []
    old: list[str] = []
    new: list[str] = []
    for line in [*lines, "@@"]:
        at_end = line.rstrip() == _END_OF_FILE
        if line.startswith("@@") or at_end:
            if old or new:
                yield Hunk(_joined(old), _joined(new), tuple(anchors), at_end)
                anchors, old, new = [], [], []
            if anchor := line.removeprefix("@@").strip() if not at_end else "":
                anchors.append(anchor)
        elif line[:1] in ("", " ", "+", "-"):
            if line[:1] != "+":
                old.append(line[1:])
            if line[:1] != "-":
                new.append(line[1:])
        else:
            raise ToolError(
                f"In the patch of {path}, lines begin with ' ', '-' or '+', not {line[:80]!r}."
            )


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _behind(plain: str, anchor: str, cursor: int) -> int:
    """Where the line after the next one that reads like the anchor begins; the cursor without."""
    for start in (cursor, 0):
        position = start
        for line in plain[start:].splitlines(keepends=True):
            position += len(line)
            if line.strip() == anchor:
                return position
    return cursor


def _place(plain: str, hunk: Hunk, cursor: int) -> Span | None:
    if not hunk.old:
        # Nothing to find: behind its anchor, or at the end.
        start = cursor if hunk.anchors else len(plain)
        line_end = "" if start == 0 or plain[start - 1] == "\n" else "\n"
        return Span(start, start, line_end + hunk.new)
    found_spans, _ = find_spans(plain, hunk.old, hunk.new)
    spans = [span for span in found_spans if span.start == 0 or plain[span.start - 1] == "\n"]
    if hunk.at_end:
        return spans[-1] if spans else None
    return next((span for span in spans if span.start >= cursor), None)
