"""File URIs, and positions in a text, converted between characters and a server's units.

Kore counts characters (code points), servers count bytes of UTF-8 or units of UTF-16, which is the
default. All counts start at 0.
"""

import os
import re
from bisect import bisect_right
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import quote, unquote_to_bytes, urlsplit

from agent.records import frozen

# Characters that RFC 3986 allows in a path; servers compare URIs literally.
_SAFE = "/~!$&'()*+,;=@"
# Longer than any encoded path.
_MAX_CHARS = 3 * 4_096


def uri_of(path: Path) -> str:
    """Return the URI of a file by its absolute path."""
    return "file://" + quote(os.fsencode(path), safe=_SAFE)


def path_of(uri: Any) -> Path | None:
    """Return the normalized path of a URI, or None when it is not a local file."""
    if not isinstance(uri, str) or len(uri) > _MAX_CHARS:
        return None
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme.lower() != "file" or parts.netloc not in ("", "localhost"):
        return None
    path = os.fsdecode(unquote_to_bytes(parts.path))
    if not path.startswith("/") or "\0" in path:
        return None
    return Path(os.path.normpath(path))


Encoding = Literal["utf-8", "utf-16", "utf-32"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)

_WORD = re.compile(r"\w+")
# `str.splitlines` also ends lines at form feeds, U+2028 and others, which the protocol doesn't.
_LINE_END = re.compile(r"\r\n|\n|\r")


def split_lines(text: str) -> list[str]:
    """Return the lines of a text without line breaks; a final line break adds an empty line."""
    return _LINE_END.split(text)


@frozen
class Position:
    """Line and character in it, both from 0."""

    line: int
    character: int


class TextLines:
    """Text whose positions can be converted to any encoding."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def __len__(self) -> int:
        return len(self._starts)

    def line(self, number: int) -> str:
        """Return the text of a line without its line break; empty after the last line."""
        if not 0 <= number < len(self._starts):
            return ""
        after = self._starts[number + 1] if number + 1 < len(self._starts) else len(self.text)
        return self.text[self._starts[number] : after].rstrip("\r\n")

    def offset(self, position: Any, encoding: Encoding) -> int:
        """Return the offset of a server's position.

        A position past the end of a line means the end. Raises `ValueError` for a malformed
        position.
        """
        try:
            line, units = int(position["line"]), int(position["character"])
        except (TypeError, KeyError, OverflowError):
            raise ValueError("no position") from None
        if line < 0 or units < 0:
            raise ValueError("a position before the text")
        if line >= len(self._starts):
            return len(self.text)
        return self._starts[line] + characters_of(self.line(line), units, encoding)

    def position(self, offset: int) -> Position:
        """Return the line and character at an offset."""
        line = bisect_right(self._starts, offset) - 1
        return Position(line, offset - self._starts[line])

    def word(self, position: Position) -> str:
        """Return the word at a position, or an empty text."""
        matches = _WORD.finditer(self.line(position.line))
        spans = (match for match in matches if match.start() <= position.character <= match.end())
        match = next(spans, None)
        return match[0] if match is not None else ""

    def to_wire(self, position: Position, encoding: Encoding) -> dict[str, int]:
        """Return a position in the server's units."""
        before = self.line(position.line)[: position.character]
        return {"line": position.line, "character": units_of(before, encoding)}


def units_of(text: str, encoding: Encoding) -> int:
    """Return the length of a text in the server's units."""
    if encoding == "utf-32" or text.isascii():
        return len(text)
    if encoding == "utf-8":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text) + sum(char > "\uffff" for char in text)


def characters_of(line: str, units: int, encoding: Encoding) -> int:
    """Convert a number of units to a number of characters, at most the length of the line."""
    if encoding == "utf-32" or line.isascii():
        return min(units, len(line))
    counted = 0
    for number, char in enumerate(line):
        if counted >= units:
            return number
        counted += units_of(char, encoding)
    return len(line)
