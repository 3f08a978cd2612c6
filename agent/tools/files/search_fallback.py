"""Replacement for ripgrep if it is missing: a program that writes ripgrep's JSON.

`files ROOT` lists the files below this folder, each terminated by NUL. `lines ROOT PATTERN i|-
NAME` prints the matching lines of the file NAME or, if it is empty, of all files. It is a separate
process, because a search can take long: its parent ends it or, if the parent is gone, the kernel
does.
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent.security.files.ignore_rules import MAX_BYTES as IGNORES_LIMIT_BYTES
from agent.security.files.ignore_rules import NAME, Ignores
from agent.security.files.safe_open import open_regular
from agent.text.text_document import MAX_BYTES, TextFormat, lines_of, searchable
from agent.tools.child_process import limit

if TYPE_CHECKING:
    from re2 import _Regexp


# RE2 and ripgrep match in linear time and omit look-around and back-references. Syntax that RE2
# reads differently (`\w` and `\d` of ASCII only, nested classes, a literal `{`) is translated or
# rejected, by ripgrep's rules: https://docs.rs/regex/latest/regex/#syntax
_BEYOND = "look-around and back-references are not supported"
_SETS = "nested classes and &&, -- and ~~ in them need ripgrep; escape what is meant literally"
_COUNT = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_HEX = re.compile(r"\\[uU](?:\{([0-9A-Fa-f]{1,8})\}|(?<=u)([0-9A-Fa-f]{4})|([0-9A-Fa-f]{8}))")
_BRACES = re.compile(r"\\[pPx]\{[^{}]*\}")
_POSIX = re.compile(r"\[:\^?[a-z]+:\]")
_GROUP = re.compile(r"\(\?(?:=|!|<=|<!|P=|P>)")
# Python's name for these, or octal: unknown to ripgrep.
_REFUSED = {
    **dict.fromkeys("0123456789", _BEYOND),
    **dict.fromkeys("<>", r"use \b where a word begins or ends"),
    **dict.fromkeys("CEGQXZ", "unrecognized escape sequence"),
}
# Meaning in ripgrep, for the inside of a class.
_DIGIT = (r"\p{Nd}", r"\P{Nd}")
_SPACE = (
    r"\t-\r\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}",
    r"\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}"
    r"\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff}",
)
_WORD = (
    r"\pL\pM\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}"
    r"\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}",
    r"\p{No}\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}\pS\pZ\p{Cc}\p{Co}",
)
# Positions where RE2's ASCII-only `\b` can be replaced with a neighbour. Only the fact that a line
# matches counts, so the match may include a neighbour at both ends of a pattern.
_WORDS = r"\((?:\?:)?(?:\w+\|)*\w+\)"
_BEGINS = re.compile(rf"\A(\(\?[ims]+\))?\\b(?=\w|\\[wd]|{_WORDS})")
_ENDS = re.compile(rf"((?:(?<![\\\w])|\\[bBdDsSwW])\w+|\\[wd]\+?|{_WORDS})\\b$")
_CLASSES = {"d": _DIGIT, "s": _SPACE, "w": _WORD}


class BadPattern(ValueError):
    """Pattern error; the text is a sentence for the model."""


def compile_pattern(pattern: str, *, ignore_case: bool) -> "_Regexp":
    """Compile a pattern for the bytes of one line. Raises `BadPattern`."""
    # Imported for a search without ripgrep: most machines never need it.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    pattern = _ENDS.sub(r"\1(?:\\W|$)", _BEGINS.sub(r"\1(?:^|\\W)", pattern))
    translated = _Reader(pattern).read()
    try:
        return re2.compile(translated.encode("utf-8", "surrogateescape"), options)
    except re2.error as exc:
        detail = exc.args[0] if exc.args else "unusable"
        text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        raise BadPattern(text) from None


class _Reader:
    """Translator of a pattern for RE2, in one pass."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def read(self) -> str:
        parts = []
        while self._at < len(self._pattern):
            char = self._pattern[self._at]
            if char == "\\":
                parts.append(self._escape(inside=False))
            elif char == "[":
                parts.append(self._class())
            elif char == "{":
                parts.append(self._take(_COUNT, r"a literal { must be escaped: \{"))
            elif _GROUP.match(self._pattern, self._at):
                raise BadPattern(_BEYOND)
            else:
                parts.append(char)
                self._at += 1
        return "".join(parts)

    def _take(self, form: re.Pattern[str], refusal: str) -> str:
        match = form.match(self._pattern, self._at)
        if match is None:
            raise BadPattern(refusal)
        self._at = match.end()
        return match[0]

    def _escape(self, *, inside: bool) -> str:
        """Translate an escape sequence; `inside`: within a class."""
        char = self._pattern[self._at + 1 : self._at + 2]
        if char in _REFUSED:
            raise BadPattern(f"\\{char}: {_REFUSED[char]}")
        if char in ("u", "U"):
            match = _HEX.match(self._pattern, self._at)
            if match is None:
                raise BadPattern(f"\\{char} needs hexadecimal digits of a character")
            self._at = match.end()
            return rf"\x{{{match[1] or match[2] or match[3]}}}"
        if braces := _BRACES.match(self._pattern, self._at):
            self._at = braces.end()
            return braces[0]
        self._at += 2
        if char.lower() not in _CLASSES:
            return f"\\{char}"
        plain, negated = _CLASSES[char.lower()]
        if inside:
            return negated if char.isupper() else plain
        return f"[{'^' if char.isupper() else ''}{plain}]"

    def _class(self) -> str:
        """Translate a class, starting at its opening bracket."""
        start = re.compile(r"\[\^?\]?").match(self._pattern, self._at)
        assert start is not None
        self._at = start.end()
        parts = [start[0]]
        while (char := self._pattern[self._at : self._at + 1]) != "]":
            if not char:
                raise BadPattern("unclosed character class")
            if self._pattern.startswith(("&&", "--", "~~"), self._at):
                raise BadPattern(_SETS)
            if char == "[":
                parts.append(self._take(_POSIX, _SETS))
            elif char == "\\":
                parts.append(self._escape(inside=True))
            else:
                parts.append(char)
                self._at += 1
        self._at += 1
        return "".join([*parts, "]"])


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
            # With a line break, as in ripgrep: no part of the line itself is mistaken for it.
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
    data = _read(path, MAX_BYTES)
    lines = searchable(data) if data is not None else None
    if data is None or lines is None:
        return
    exact = lines
    if TextFormat.of(data) == TextFormat() and any("\ufffd" in line for line in lines):
        # Bytes that are not text must match nothing, but must be shown.
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
