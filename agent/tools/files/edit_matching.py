"""Tolerant matching of edits, in steps, that splices the file's own text.

Models quote files from memory: line endings, trailing spaces, indentation and typographic
characters drift. Each step tolerates one more of these differences; the first step with a match
decides. All text outside of the matches is unchanged, character for character.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from agent.errors import ToolError
from agent.records import frozen
from agent.text.similar_names import similar_names
from agent.text.text_document import line_ending, quote_lines

# One character each, so that positions stay the same.
_PLAIN = str.maketrans(
    {
        **dict.fromkeys("‘’‚‛′", "'"),
        **dict.fromkeys("“”„‟″«»", '"'),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("\u00a0\u2002\u2003\u2007\u2009\u200a\u202f\u3000", " "),
    }
)

Key = Callable[[str], str]

# Number of file lines quoted in a rejection.
_MAX_EXCERPT_LINES = 10
_MAX_EXCERPT_CHARS = 200
_DISTINCT_CHARS = 4
_MAX_PLACES = 100
_MAX_SEARCHED_LINES = 5_000


def _without_end(line: str) -> str:
    return line.rstrip(" \t")


def _plain(line: str) -> str:
    return line.translate(_PLAIN)


def _bare(line: str) -> str:
    return line.translate(_PLAIN).strip()


# The same steps for whole lines: each tolerates one more difference from the quotation.
LINE_KEYS: tuple[Key, ...] = (str, _without_end, str.strip, _plain, _bare)


@frozen
class Edit:
    """One replacement; several matches are rejected unless `replace_all`."""

    old: str
    new: str
    replace_all: bool = False


@frozen
class Span:
    """Match in the text with LF line endings: [start, end) is replaced with `new`."""

    start: int
    end: int
    new: str


def apply(text: str, edit: Edit, name: str) -> tuple[str, str]:
    """Return `text` with the edit made, and the tolerated differences.

    `name` is the file's name for the ToolError of an edit that does not match.
    """
    old, new = edit.old.replace("\r\n", "\n"), edit.new.replace("\r\n", "\n")
    if not old:
        raise ToolError("old_string is empty; use write_file to create or replace a whole file.")
    if old == new:
        raise ToolError("old_string and new_string are the same; nothing would change.")
    plain = text.replace("\r\n", "\n")
    spans, tolerance = find_spans(plain, old, new)
    if not spans:
        raise ToolError(f"old_string was not found in {name}.{closest_lines(plain, old)}")
    if len(spans) > 1 and not edit.replace_all:
        places = ", ".join(str(plain.count("\n", 0, span.start) + 1) for span in spans[:10])
        more = ", …" if len(spans) > 10 else ""
        raise ToolError(
            f"old_string occurs {len(spans)} times in {name} (lines {places}{more}); "
            "quote more lines around it, or set replace_all."
        )
    return splice(text, _without_overlaps(spans)), tolerance


def find_spans(plain: str, old: str, new: str) -> tuple[list[Span], str]:
    """Return the matches and the differences tolerated to find them."""
    steps: dict[str, Callable[[], Iterator[Span]]] = {
        "": lambda: _exact(plain, old, new),
        "matched after ignoring blanks at line ends": lambda: _by_lines(
            plain, old, new, _without_end
        ),
        "matched after ignoring indentation": lambda: _by_lines(plain, old, new, str.strip),
        "matched after ignoring typographic signs": lambda: _exact(_plain(plain), _plain(old), new),
        "matched after ignoring indentation and typographic signs": lambda: _by_lines(
            plain, old, new, _bare
        ),
    }
    for tolerance, step in steps.items():
        if spans := list(step()):
            return spans, tolerance
    return [], ""


def _exact(plain: str, old: str, new: str) -> Iterator[Span]:
    # Overlapping matches count as well: they are just as ambiguous.
    at = plain.find(old)
    while at >= 0:
        yield Span(at, at + len(old), new)
        at = plain.find(old, at + 1)


def _by_lines(plain: str, old: str, new: str, key: Key) -> Iterator[Span]:
    ends_line = old.endswith("\n")
    old_lines = old.removesuffix("\n").split("\n")
    keys = [key(line) for line in old_lines]
    if not any(keys):
        return
    lines = plain.split("\n")
    have = [key(line) for line in lines]
    starts = _offsets(lines)
    for i in range(len(lines) - len(keys) + 1):
        if have[i] != keys[0] or have[i : i + len(keys)] != keys:
            continue
        last = i + len(keys) - 1
        end = starts[last] + len(lines[last])
        closes = ends_line and last + 1 < len(lines)
        text = new if closes else new.removesuffix("\n") if ends_line else new
        matched_lines = lines[i : last + 1]
        yield Span(starts[i], end + closes, reindent(text, old_lines, matched_lines))


def reindent(new: str, old_lines: Sequence[str], file_lines: Sequence[str]) -> str:
    """Return `new` with the file's indentation in place of the quoted indentation."""
    moves: dict[str, str] = {}
    for quoted, real in zip(old_lines, file_lines, strict=True):
        if quoted.strip():
            moves.setdefault(_indent(quoted), _indent(real))
    if all(quoted == real for quoted, real in moves.items()):
        return new
    quoted_indents = sorted(moves, key=len, reverse=True)

    def move_line(line: str) -> str:
        indent = _indent(line)
        base = next((quoted for quoted in quoted_indents if indent.startswith(quoted)), None)
        if base is None or not line.strip():
            return line
        return moves[base] + _deeper(indent[len(base) :], moves[base]) + line[len(indent) :]

    return "\n".join(move_line(line) for line in new.split("\n"))


def _deeper(rest: str, base: str) -> str:
    """Return the additional indentation, in tabs where the file uses tabs."""
    if base and not base.strip("\t") and rest and not rest.strip(" ") and len(rest) % 4 == 0:
        return "\t" * (len(rest) // 4)
    return rest


def _without_overlaps(spans: list[Span]) -> list[Span]:
    separate: list[Span] = []
    for span in spans:
        if not separate or span.start >= separate[-1].end:
            separate.append(span)
    return separate


def splice(text: str, spans: list[Span]) -> str:
    # `breaks` are the positions of "\r\n", numbered as if each were one character.
    breaks = [at - i for i, at in enumerate(_places(text, "\r\n"))]
    ending = line_ending(text)
    pieces: list[str] = []
    copied = 0
    for span in spans:
        start = span.start + bisect_left(breaks, span.start)
        end = span.end + bisect_left(breaks, span.end)
        own = text.find("\n", start, end)
        here = ending if own < 0 else "\r\n" if text[own - 1 : own] == "\r" else "\n"
        pieces += [text[copied:start], span.new.replace("\n", here)]
        copied = end
    return "".join([*pieces, text[copied:]])


def _places(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + len(part))


def _offsets(lines: list[str]) -> list[int]:
    offsets, at = [], 0
    for line in lines:
        offsets.append(at)
        at += len(line) + 1
    return offsets


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def closest_lines(plain: str, old: str) -> str:
    """Return the lines of the file closest to the text that was not found, with line numbers."""
    lines = plain.split("\n")
    old_lines = old.removesuffix("\n").split("\n")
    start = _by_votes(lines, old_lines)
    if start is None:
        start = _by_likeness(lines, old_lines)
    if start is None:
        return " Read the file again and quote it exactly."
    end = min(start + min(len(old_lines), _MAX_EXCERPT_LINES), len(lines))
    excerpt = quote_lines(lines, [(start, end)], around=0)
    return f" Similar text is at line {start + 1}:\n{excerpt}"


def similar_lines(lines: Sequence[str], missing: str) -> str:
    """Return up to three lines of a file that resemble a missing line, with line numbers."""
    searched = [line.strip()[:_MAX_EXCERPT_CHARS] for line in lines[:_MAX_SEARCHED_LINES]]
    close = similar_names(missing.strip()[:_MAX_EXCERPT_CHARS], set(searched), 3)
    places = [n for n, line in enumerate(searched) if line in close][:_MAX_EXCERPT_LINES]
    if not places:
        return " Read the file again and quote a line of it exactly."
    return f" Similar lines:\n{quote_lines(lines, [(n, n + 1) for n in places], around=0)}"


def _by_votes(lines: list[str], old_lines: list[str]) -> int | None:
    """Return the first line of the range with the most matching lines, ignoring whitespace."""
    places: dict[str, list[int]] = {}
    for n, line in enumerate(lines):
        places.setdefault(line.strip(), []).append(n)
    votes: Counter[int] = Counter()
    for offset, line in enumerate(old_lines):
        key = line.strip()
        # A lone bracket occurs anywhere and identifies nothing.
        if len(key) >= _DISTINCT_CHARS:
            votes.update(max(0, n - offset) for n in places.get(key, ())[:_MAX_PLACES])
    return max(votes, key=lambda n: (votes[n], -n), default=None)


def _by_likeness(lines: list[str], old_lines: list[str]) -> int | None:
    """Return the line most similar to the longest of the wanted lines."""
    offset, longest = max(enumerate(old_lines), key=lambda item: len(item[1].strip()))
    if len(longest.strip()) < _DISTINCT_CHARS:
        return None
    searched = [line.strip()[:_MAX_EXCERPT_CHARS] for line in lines[:_MAX_SEARCHED_LINES]]
    close = similar_names(longest.strip()[:_MAX_EXCERPT_CHARS], searched, cutoff=0.7)
    return max(0, searched.index(close[0]) - offset) if close else None
