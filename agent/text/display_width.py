"""Display width of text in terminal columns: 2 for a Chinese character or an emoji, 0 for a
combining mark.

Latin text with dashes, quotes, an ellipsis or arrows is measured without importing wcwidth, which
has 29 modules.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

# Minimum width for wrapping.
_MIN_COLUMNS = 20
# ASCII, Latin, dashes to ellipsis, arrows: characters of one column that do not combine.
_NARROW = re.compile("[\x00-\x7f\xa0-\u02ff\u2010-\u2027\u2190-\u21ff]*")
_NOT_FIRST = "，。、；：？！）】》」』〉”’…—%,.;:?!)]}"
_NOT_LAST = "（【《「『〈“‘([{"


def display_width(text: str) -> int:
    """Return the columns of one line of printable text."""
    if _is_narrow(text):
        return len(text)
    import wcwidth

    return wcwidth.width(text)


def padded(text: str, columns: int) -> str:
    """Return the text padded with spaces to this width."""
    return text + " " * (columns - display_width(text))


def shortened(text: str, columns: int) -> str:
    """Return the text cut to at most this width, with an ellipsis where it was cut."""
    if display_width(text) <= columns:
        return text
    return f"{text[: _fits(text, columns - 1)].rstrip()}…" if columns > 0 else ""


def wrapped(text: str, columns: int) -> list[str]:
    """Split text into lines of at most this width, at spaces or between ideographs.

    A word that is longer than a line is cut. Each line has at least one character.
    """
    *ends, last = pairwise((0, *line_breaks(text, columns), len(text)))
    return [*(text[begin:end].rstrip() for begin, end in ends), text[slice(*last)]]


def wrap_paragraphs(text: str, columns: int) -> str:
    """Wrap lines between words and keep their indentation.

    A URL that is longer than a line is put on a separate line and is not split, so that it can be
    opened and copied.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        words = line.lstrip(" ")
        indent = line[: len(line) - len(words)]
        room = columns - len(indent)
        parts = _split_line(words, room) if room >= _MIN_COLUMNS else [words]
        lines += (indent + part for part in parts)
    return "\n".join(lines)


def _split_line(line: str, columns: int) -> Iterator[str]:
    """Split a line; a Latin word that is too long is put on a separate line."""
    run: list[str] = []
    for word in line.split(" "):
        if not word.isascii() or len(word) <= columns:
            run.append(word)
            continue
        if run:
            yield from wrapped(" ".join(run), columns)
        yield word
        run = []
    if run:
        yield from wrapped(" ".join(run), columns)


def line_breaks(text: str, columns: int) -> list[int]:
    """Return the offsets where lines after the first begin; spaces stay at the ends of lines."""
    breaks: list[int] = []
    begin = 0
    while rest := text[begin:]:
        fitting = _fits(rest, columns) or _first(rest)
        if fitting == len(rest):
            break
        end = next((at for at in range(fitting, 0, -1) if _may_break(rest, at)), fitting)
        begin += len(rest) - len(rest[end:].lstrip())
        breaks.append(begin)
    return breaks


def _may_break(text: str, at: int) -> bool:
    """Return whether a line may break at an offset: at a space or next to an ideograph."""
    before, behind = text[at - 1], text[at]
    if behind == " ":
        return True
    if not (_is_ideographic(before) or _is_ideographic(behind)) or not display_width(behind):
        return False
    return behind not in _NOT_FIRST and before not in _NOT_LAST and before != " "


def _is_ideographic(char: str) -> bool:
    """Return whether a character is an ideograph, kana or their punctuation."""
    code = ord(char)
    return 0x2E80 <= code < 0xFE00 or 0xFF00 <= code < 0xFFF0 or 0x20000 <= code < 0x40000


def _is_narrow(text: str) -> bool:
    """Return whether every code point takes a column of its own."""
    return text.isascii() or _NARROW.fullmatch(text) is not None


def _first(text: str) -> int:
    """Return the number of code points of the first character."""
    import wcwidth

    return len(next(iter(wcwidth.iter_graphemes(text))))


def _fits(text: str, columns: int) -> int:
    """Return the number of code points that fit without splitting a character."""
    if _is_narrow(text):
        return min(len(text), columns)
    import wcwidth

    used = code_points = 0
    for cluster in wcwidth.iter_graphemes(text):
        used += wcwidth.width(cluster)
        if used > columns:
            break
        code_points += len(cluster)
    return code_points
