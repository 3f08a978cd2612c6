"""How much room a text takes on a screen: Chinese takes two columns a character, an emoji of five
code points two in all, a combining mark none.

Plain ASCII is counted without the library that knows the others.
"""

from collections.abc import Iterator
from itertools import pairwise

# Columns below which a text is not worth setting.
_LEAST = 20
_NOT_FIRST = "，。、；：？！）】》」』〉”’…—%,.;:?!)]}"
_NOT_LAST = "（【《「『〈“‘([{"


def display_width(text: str) -> int:
    """Columns of one line of printable text."""
    if text.isascii():
        return len(text)
    import wcwidth

    return wcwidth.width(text)


def padded(text: str, columns: int) -> str:
    """With blanks behind it, so that what follows stands in its column."""
    return text + " " * (columns - display_width(text))


def shortened(text: str, columns: int) -> str:
    """At most so many columns; what was cut ends with an ellipsis."""
    if display_width(text) <= columns:
        return text
    return f"{text[: _fits(text, columns - 1)].rstrip()}…" if columns > 0 else ""


def wrapped(text: str, columns: int) -> list[str]:
    """Lines of at most so many columns, cut at blanks or between two characters that are written
    without any; a word that is longer than a line is cut. A line holds at least one character."""
    *ends, last = pairwise((0, *line_breaks(text, columns), len(text)))
    return [*(text[begin:end].rstrip() for begin, end in ends), text[slice(*last)]]


def wrap_paragraphs(text: str, columns: int) -> str:
    """Lines cut between words where a terminal would cut within one, each as far in as it began.

    An address that is longer than a line stays whole on one of its own, to be opened and copied.
    """
    lines: list[str] = []
    for line in text.split("\n"):
        words = line.lstrip(" ")
        indent = line[: len(line) - len(words)]
        room = columns - len(indent)
        parts = _split_line(words, room) if room >= _LEAST else [words]
        lines += (indent + part for part in parts)
    return "\n".join(lines)


def _split_line(line: str, columns: int) -> Iterator[str]:
    """The line in lines; a word of Latin letters that fits in none of them has one of its own."""
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
    """Where those lines begin that come after the first; blanks stay at the ends of lines."""
    breaks: list[int] = []
    begin = 0
    while rest := text[begin:]:
        most = _fits(rest, columns) or _first(rest)
        if most == len(rest):
            break
        end = next((at for at in range(most, 0, -1) if _may_break(rest, at)), most)
        begin += len(rest) - len(rest[end:].lstrip())
        breaks.append(begin)
    return breaks


def _may_break(text: str, at: int) -> bool:
    """Chinese and Japanese are written without blanks; no line begins with a closing mark."""
    before, behind = text[at - 1], text[at]
    if behind == " ":
        return True
    if not (_is_ideographic(before) or _is_ideographic(behind)) or not display_width(behind):
        return False
    return behind not in _NOT_FIRST and before not in _NOT_LAST and before != " "


def _is_ideographic(letter: str) -> bool:
    """Also kana, and the marks that go with them."""
    code = ord(letter)
    return 0x2E80 <= code < 0xFE00 or 0xFF00 <= code < 0xFFF0 or 0x20000 <= code < 0x40000


def _first(text: str) -> int:
    """The code points of the first character."""
    import wcwidth

    return len(next(iter(wcwidth.iter_graphemes(text))))


def _fits(text: str, columns: int) -> int:
    """How many code points of the text fit, and cut no character in two."""
    if text.isascii():
        return min(len(text), columns)
    import wcwidth

    used = code_points = 0
    for cluster in wcwidth.iter_graphemes(text):
        used += wcwidth.width(cluster)
        if used > columns:
            break
        code_points += len(cluster)
    return code_points
