"""Parser of the patch format that some models were trained on, and its application to a text.

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

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from agent.errors import ToolError
from agent.records import frozen
from agent.text.text_document import quote_lines
from agent.tools.files.edit_matching import LINE_KEYS, Key, closest_lines, reindent, similar_lines

_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_MOVE = "*** Move to: "
_HEADS: dict[str, Literal["add", "delete", "update"]] = {
    "*** Add File: ": "add",
    "*** Delete File: ": "delete",
    "*** Update File: ": "update",
}
# The text after the second @@ is git's guess at the function, often cut: not an anchor.
_NUMBERS = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)?(?: @@.*)?$")
# Number of positions listed in a rejection.
_MAX_PLACES = 10


@frozen
class LineNumbers:
    """Old lines of a hunk according to its header: only a hint, because models count badly."""

    start: int
    count: int


@frozen
class Hunk:
    """Lines of a patch, each with its sign (" ", "-" or "+").

    `anchors` are lines above the hunk; `at_end`: the hunk ends with the file.
    """

    lines: tuple[tuple[str, str], ...]
    anchors: tuple[str, ...] = ()
    numbers: LineNumbers | None = None
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        return [text for sign, text in self.lines if sign != "+"]


@frozen
class FilePatch:
    """Change of one file: `content` is the text of a new file, `target` the path of a move."""

    kind: Literal["add", "delete", "update"]
    path: str
    content: str = ""
    target: str | None = None
    hunks: tuple[Hunk, ...] = ()


@frozen
class PatchedText:
    """Text after its hunks, and the ranges of its lines (from 0) that they changed."""

    text: str
    regions: tuple[tuple[int, int], ...]


def parse_patch(text: str) -> tuple[FilePatch, ...]:
    """Parse a patch. Raises ToolError, which names the line."""
    lines = text.strip().replace("\r\n", "\n").split("\n")
    if lines[0].strip() != _BEGIN:
        raise ToolError(f"The patch must begin with {_BEGIN!r}, found {lines[0][:80]!r}.")
    if lines[-1].strip() != _END:
        raise ToolError(f"The patch is incomplete: its last line must be {_END!r}.")
    patches = tuple(_files(lines[1:-1]))
    if not patches:
        raise ToolError("The patch names no file; write '*** Update File: PATH', for example.")
    return patches


def apply_hunks(text: str, hunks: Sequence[Hunk], name: str) -> PatchedText:
    """Return the text after all hunks, which may come in any order.

    Each hunk must fit exactly one position by its lines, anchors and line numbers. Lines that no
    hunk removes are unchanged, character for character, and the last line keeps its line break or
    its lack of one. Raises `ToolError`, which lists the candidate lines.
    """
    places = _Places(text, name)
    edits = _Edits(places.raw)
    for number, patch_hunk in enumerate(hunks, 1):
        which = f"Hunk {number} of {len(hunks)}"
        hunk = places.without_separator(patch_hunk)
        edits.add(number, hunk, *places.find(hunk, which), name)
    return edits.apply()


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
    numbers: LineNumbers | None = None
    signed: list[tuple[str, str]] = []
    for line in [*lines, "@@"]:
        at_end = line.rstrip() == _END_OF_FILE
        if line.startswith("@@") or at_end:
            if signed:
                yield Hunk(tuple(signed), tuple(anchors), numbers, at_end)
                anchors, numbers, signed = [], None, []
            if header := _NUMBERS.match(line.rstrip()):
                numbers = LineNumbers(int(header[1]), int(header[2] or 1))
            elif not at_end and (anchor := line[2:].removesuffix("@@").strip()):
                anchors.append(anchor)
        elif line[:1] in ("", " ", "+", "-"):
            signed.append((line[:1] or " ", line[1:]))
        else:
            raise ToolError(
                f"In the patch of {path}, lines begin with ' ', '-' or '+', not {line[:80]!r}."
            )
    if anchors:
        raise ToolError(f"In the patch of {path}, '@@ {anchors[-1]}' is followed by no lines.")


class _Places:
    """Lines of a file, and the positions where hunks fit."""

    def __init__(self, text: str, name: str) -> None:
        self.raw = [f"{line}\n" for line in text.split("\n")]
        last = self.raw.pop().removesuffix("\n")
        self.raw += [last] if last else []
        self.lines = [_without_end(line) for line in self.raw]
        self._name = name
        self._keyed: dict[Key, list[str]] = {}

    def without_separator(self, hunk: Hunk) -> Hunk:
        """Return the hunk without an empty last line if it fits only then.

        Models put an empty line between hunks.
        """
        if hunk.lines[-1] != (" ", "") or self._fits(hunk):
            return hunk
        shorter = replace(hunk, lines=hunk.lines[:-1])
        return shorter if shorter.old and self._fits(shorter) else hunk

    def _fits(self, hunk: Hunk) -> bool:
        return any(self._fitting(hunk.old, key) for key in LINE_KEYS)

    def find(self, hunk: Hunk, which: str) -> tuple[int, Key]:
        """Return the first line of a hunk, and the leniency of the comparison.

        Raises `ToolError`.
        """
        anchors = self._anchors(hunk.anchors, which)
        if not hunk.old:
            return self._insertion(hunk, anchors, which), LINE_KEYS[0]
        fits_elsewhere: list[int] = []
        for key in LINE_KEYS:
            fitting = self._fitting(hunk.old, key)
            fits_elsewhere += [start for start in fitting if start not in fits_elsewhere]
            if hunk.at_end:
                fitting = [
                    number for number in fitting if number + len(hunk.old) == len(self.lines)
                ]
            if hunk.anchors:
                fitting = sorted(
                    {number for anchor in anchors for number in self._below(anchor, fitting, hunk)}
                )
            if fitting:
                return self._only(_nearest(fitting, hunk.numbers), which), key
        where = f" below '@@ {hunk.anchors[-1]}'" if hunk.anchors else ""
        where = f" at the end of the file{where}" if hunk.at_end else where
        raise ToolError(
            f"{which} was not found{where} in {self._name}; nothing was changed."
            f"{self._hint(hunk, fits_elsewhere)}"
        )

    def _hint(self, hunk: Hunk, fits_elsewhere: Sequence[int]) -> str:
        if hunk.at_end:
            last = range(max(0, len(self.lines) - len(hunk.old)), len(self.lines))
            return f" The end of the file is:\n{self._quote(last)}"
        if fits_elsewhere:
            return f" It would fit elsewhere:\n{self._quote(fits_elsewhere)}"
        return closest_lines("\n".join(self.lines), "\n".join(hunk.old))

    def _insertion(self, hunk: Hunk, anchors: Sequence[int], which: str) -> int:
        """Return the position of a hunk that only adds lines. Raises `ToolError`."""
        if hunk.at_end or not self.lines:
            return len(self.lines)
        if hunk.anchors:
            return self._only(_nearest(anchors, hunk.numbers), which) + 1
        numbers = hunk.numbers
        if numbers is not None and numbers.count == 0 and numbers.start <= len(self.lines):
            return numbers.start
        raise ToolError(
            f"{which} only adds lines to {self._name} and does not say where: quote the line above "
            f"them, name it with '@@ LINE', or write {_END_OF_FILE!r} below them. Nothing was "
            "changed."
        )

    def _anchors(self, anchors: Sequence[str], which: str) -> list[int]:
        """Return the candidate lines for the last anchor. Raises `ToolError` for a missing one."""
        positions: list[int] = []
        for n, anchor in enumerate(anchors):
            matching = self._matching(anchor)
            if n > 0:
                matching = sorted(
                    {number for above in positions for number in self._inside(above, matching)}
                )
            if not matching:
                raise ToolError(
                    f"The line '@@ {anchor}' of {_small(which)} was not found in {self._name}; "
                    f"nothing was changed.{similar_lines(self.lines, anchor)}"
                )
            positions = matching
        return positions

    def _matching(self, anchor: str) -> list[int]:
        key = LINE_KEYS[-1]
        start, lines = key(anchor), self._by(key)
        full_matches = [n for n, line in enumerate(lines) if line == start]
        return full_matches or [n for n, line in enumerate(lines) if line.startswith(start)]

    def _fitting(self, old: Sequence[str], key: Key) -> list[int]:
        key_lines, lines = [key(line) for line in old], self._by(key)
        if key is not LINE_KEYS[0] and not any(key_lines):
            return []
        return [
            n
            for n in range(len(lines) - len(key_lines) + 1)
            if lines[n] == key_lines[0] and lines[n : n + len(key_lines)] == key_lines
        ]

    def _by(self, key: Key) -> list[str]:
        if key not in self._keyed:
            self._keyed[key] = [key(line) for line in self.lines]
        return self._keyed[key]

    def _below(self, anchor: int, fitting: Sequence[int], hunk: Hunk) -> list[int]:
        """Return the positions that an anchor may refer to.

        These are around or directly below it, else in its indented block, else anywhere below.
        """
        touching = [
            number for number in fitting if number <= anchor + 1 and anchor < number + len(hunk.old)
        ]
        return touching or self._inside(anchor, fitting)

    def _inside(self, anchor: int, places: Iterable[int]) -> list[int]:
        below = [place for place in places if place > anchor]
        end = self._block_end(anchor)
        return [number for number in below if number < end] or below

    def _block_end(self, anchor: int) -> int:
        indent = _indent(self.lines[anchor])
        for n in range(anchor + 1, len(self.lines)):
            if self.lines[n].strip() and _indent(self.lines[n]) <= indent:
                return n
        return len(self.lines)

    def _only(self, places: Sequence[int], which: str) -> int:
        if len(places) == 1:
            return places[0]
        raise ToolError(
            f"{which} fits {len(places)} places in {self._name}; nothing was changed. Quote more "
            f"lines around it, or name a line above it with '@@ LINE':\n{self._quote(places)}"
        )

    def _quote(self, places: Sequence[int]) -> str:
        more = f"\n… ({len(places) - _MAX_PLACES} more)" if len(places) > _MAX_PLACES else ""
        regions = [(n, n + 1) for n in places[:_MAX_PLACES]]
        return quote_lines(self.lines, regions, around=0) + more


class _Edits:
    """Changes of several hunks to the same lines, which must be consistent."""

    def __init__(self, raw: list[str]) -> None:
        self._raw = raw
        self._removed: dict[int, int] = {}
        self._covered: dict[int, int] = {}
        self._added: dict[int, tuple[int, list[str]]] = {}

    def add(self, number: int, hunk: Hunk, start: int, key: Key, name: str) -> None:
        """Add a hunk that begins at a line.

        Raises `ToolError` if another hunk removes lines that this one quotes, or adds at the same
        position.
        """
        matched = [_without_end(line) for line in self._raw[start : start + len(hunk.old)]]
        added = [text for sign, text in hunk.lines if sign == "+"]
        if key is not LINE_KEYS[0]:
            added = reindent("\n".join(added), hunk.old, matched).split("\n")
        new_lines = iter(added)
        position = start
        for sign, _ in hunk.lines:
            if sign == "+":
                other, lines = self._added.setdefault(position, (number, []))
                _refuse_both(other, number, position, name)
                lines.append(next(new_lines) + self._ending(position))
                continue
            _refuse_both(self._removed.get(position, number), number, position, name)
            if sign == "-":
                _refuse_both(self._covered.get(position, number), number, position, name)
                self._removed[position] = number
            self._covered[position] = number
            position += 1

    def apply(self) -> PatchedText:
        lines: list[str] = []
        regions: list[tuple[int, int]] = []
        for n in range(len(self._raw) + 1):
            start = len(lines)
            lines += self._added.get(n, (0, []))[1]
            if n in self._added or n in self._removed:
                regions.append((start, len(lines)))
            if n < len(self._raw) and n not in self._removed:
                lines.append(self._raw[n])
        if self._raw and not self._raw[-1].endswith("\n") and lines:
            finished = [
                line if line.endswith("\n") else line + self._ending(len(self._raw) - 1)
                for line in lines[:-1]
            ]
            lines = [*finished, _without_end(lines[-1])]
        return PatchedText("".join(lines), tuple(regions))

    def _ending(self, position: int) -> str:
        """Return the usual line ending around a line."""
        around = (position - 1, position, position - 2)
        lines = [self._raw[n] for n in around if 0 <= n < len(self._raw)]
        ending = next((line[-2:] for line in lines if line.endswith("\n")), "\n")
        return ending if ending == "\r\n" else "\n"


def _refuse_both(hunk: int, other: int, position: int, name: str) -> None:
    if hunk != other:
        first, second = sorted((hunk, other))
        raise ToolError(
            f"Hunks {first} and {second} change the same place in {name} (line {position + 1}); "
            "make one hunk of them. Nothing was changed."
        )


def _nearest(places: Sequence[int], numbers: LineNumbers | None) -> list[int]:
    """Return the positions nearest to the line in the header, or all positions if it names none."""
    if numbers is None:
        return list(places)
    least = min(abs(place + 1 - numbers.start) for place in places)
    return [place for place in places if abs(place + 1 - numbers.start) == least]


def _without_end(line: str) -> str:
    return line[:-1].removesuffix("\r") if line.endswith("\n") else line


def _indent(line: str) -> int:
    expanded = line.expandtabs()
    return len(expanded) - len(expanded.lstrip(" "))


def _small(which: str) -> str:
    return which[:1].lower() + which[1:]
