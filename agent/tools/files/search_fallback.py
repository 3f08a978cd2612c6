"""Replacement for ripgrep where it is missing: a program that writes ripgrep's JSON.

`files ROOT` lists the files below this folder, each terminated by NUL. `lines ROOT PATTERN i|-
NAME` prints the matching lines of the file NAME or, if it is empty, of all files. It is a separate
process because a search can take long: its parent ends it, and the kernel does if the parent is
gone.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent.security.files.ignore_rules import LIMIT_BYTES as IGNORES_LIMIT_BYTES
from agent.security.files.ignore_rules import NAME, Ignores
from agent.security.files.safe_open import open_regular
from agent.text.text_document import LIMIT_BYTES, TextFormat, lines_of, searchable
from agent.tools.child_process import limit
from agent.tools.files.regex_syntax import BadPattern, compile_pattern

if TYPE_CHECKING:
    from re2 import _Regexp

SKIPPED = ".git"


def main() -> int:
    """Return the exit code, as in ripgrep: 0 found, 1 nothing found, 2 an error on stderr."""
    limit()
    out = sys.stdout.buffer
    arguments = sys.argv[1:]
    what, root = arguments[0], Path(arguments[1])
    if what == "files":
        walk = _SearchWalk(Path.cwd(), root)
        for path in walk.files():
            out.write(os.fsencode(path) + b"\0")
        return 2 if walk.is_cut else 0
    pattern, folding, name = arguments[2:5]
    try:
        regexp = compile_pattern(pattern, ignore_case=folding == "i")
    except BadPattern as exc:
        print(f"regex parse error: {exc}", file=sys.stderr)
        return 2
    has_match = False
    walk = _SearchWalk(Path.cwd(), root)
    for path in [name] if name else walk.files():
        for number, line in _lines(path, regexp):
            # With a line end, as in ripgrep: no part of the line itself is mistaken for one.
            line_data = {"text": f"{line}\r\n"}
            data = {"path": {"text": path}, "lines": line_data, "line_number": number}
            out.write(json.dumps({"type": "match", "data": data}).encode() + b"\n")
            has_match = True
        out.flush()
    if walk.is_cut:
        return 2
    return 0 if has_match else 1


class _SearchWalk:
    """Walk through all files below `start`; `is_cut`: a folder is unreadable or too deep."""

    def __init__(self, start: Path, root: Path) -> None:
        self.is_cut = False
        self._ignores = Ignores(root, start, _read_ignores)

    def files(self) -> Iterator[str]:
        """Yield files sorted by path; only one folder is open at a time, at any depth."""
        pending: list[tuple[str, tuple[str, ...], bool]] = [("", (), True)]
        while pending:
            path, parts, is_folder = pending.pop()
            if is_folder:
                pending += reversed(self._entries(path, parts))
            else:
                yield path

    def _entries(
        self, folder: str, parts: tuple[str, ...]
    ) -> Sequence[tuple[str, tuple[str, ...], bool]]:
        members: list[tuple[str, tuple[str, ...], bool]] = []
        try:
            with os.scandir(folder or ".") as scan:
                entries = sorted(scan, key=lambda entry: os.fsencode(entry.name))
        except (FileNotFoundError, NotADirectoryError):
            return members
        except OSError:
            self.is_cut = True
            return members
        for entry in entries:
            inner = (*parts, entry.name)
            path = f"{folder}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name != SKIPPED and not self._ignores.hides(inner, is_folder=True):
                    members.append((f"{path}/", inner, True))
            elif entry.is_file(follow_symlinks=False) and not self._ignores.hides(inner):
                members.append((path, inner, False))
        return members


def _lines(path: str, regexp: "_Regexp") -> Iterator[tuple[int, str]]:
    data = _read(path, LIMIT_BYTES)
    lines = searchable(data) if data is not None else None
    if data is None or lines is None:
        return
    exact = lines
    if TextFormat.of(data) == TextFormat() and any("\ufffd" in line for line in lines):
        # Bytes that are not text must match nothing, but be shown.
        exact = lines_of(data.decode("utf-8", "surrogateescape"))
    for number, (line, searched) in enumerate(zip(lines, exact, strict=True), 1):
        if regexp.search(searched.encode("utf-8", "surrogateescape")):
            yield number, line


def _read(path: str | Path, limit_bytes: int) -> bytes | None:
    """Return the bytes of a regular file that is not too large, else None."""
    with suppress(OSError), open_regular(path, follow_links=False) as file:
        if os.fstat(file.fileno()).st_size <= limit_bytes:
            return file.read(limit_bytes)
    return None


def _read_ignores(path: Path) -> bytes | None:
    assert path.name == NAME
    return _read(path, IGNORES_LIMIT_BYTES)
