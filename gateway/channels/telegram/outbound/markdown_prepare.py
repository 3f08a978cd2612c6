"""Preparation of markdown for the parser: text that it would misread is marked or escaped."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from agent.text.visible import replace_lone_surrogates

# Noncharacters, removed from texts beforehand, mark syntax that the parser does not know: the start
# and end of a spoiler, and a certain formula between dollars.
SPOILER, END_SPOILER, FORMULA = "\ufdd0", "\ufdd1", "\ufdd2"
# Tables, footnotes, strikethrough, task lists, math, kinds of quotations: bits of pulldown-cmark.
OPTIONS = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 10 | 1 << 11

_CONTROLS = (
    {code: " " for code in range(32) if chr(code) not in "\t\n"}
    | {127: " "}
    | {ord(mark): "\ufffd" for mark in (SPOILER, END_SPOILER, FORMULA)}
)
_SPOILERS = re.compile(
    rb"(?<![\\|\w])\|\|(?=[^\s|])((?:(?!\n\s*\n)[^|]|\|(?!\|)){1,2000}?)(?<=[^\s|\\])\|\|(?![|\w])"
)
_FORMULAS = re.compile(
    r"(?<!\\)\\(?:\((?P<line>(?:(?!\n\s*\n)[^$]){1,600}?)\\\)"
    r"|\[(?P<block>(?:(?!\n\s*\n)[^$]){1,600}?)\\\])"
)
_FORMULA_SIGNS = re.compile(r"[\\^_={}+<>*/\d]")
_DUNDER = re.compile(rb"__[a-z\d]+(?:_[a-z\d]+)*__")
_LETTER = re.compile(rb"[A-Za-z\d]")
_WHOLE = ("Code", "CodeBlock", "Table", "InlineMath", "DisplayMath", "InlineHtml", "HtmlBlock")
_LINKS = ("Link", "Image")
# Escaping a mark may expose another; the text is parsed again after each pass.
_PASSES = 16

Events = list[tuple[Any, dict[str, int]]]


def sanitize(markdown: str) -> str:
    """Remove lone surrogates and control characters, which Telegram would blank out anyway."""
    text = (
        replace_lone_surrogates(markdown)
        .removeprefix("\ufeff")
        .replace("\r\n", "\n")
        .replace("\r", "\n")
    )
    return text.translate(_CONTROLS)


def parse_markdown(markdown: str) -> tuple[bytes, Events]:
    """Return the prepared source, and the parser's events with byte positions in it."""
    source = _mark(markdown)
    events = parse(source)
    for _ in range(_PASSES):
        literal = sorted(_literal(source, events))
        if not literal:
            break
        bounds = [0, *literal, len(source)]
        source = b"\\".join(source[start:end] for start, end in pairwise(bounds))
        events = parse(source)
    return source, events


def parse(source: bytes) -> Events:
    import pyromark

    options = pyromark.Options(OPTIONS)
    return list(pyromark.events_with_range(source.decode(), options=options))  # type: ignore[arg-type]


def name(event: Any) -> str:
    """Return the name of the event or, at its start, of the block."""
    if isinstance(event, str):
        return event
    kind, value = next(iter(event.items()))
    if kind == "Start":
        return value if isinstance(value, str) else next(iter(value))
    return str(kind)


def _mark(markdown: str) -> bytes:
    """Mark spoilers and LaTeX's brackets outside of code, in a form that the parser preserves."""
    source = markdown.encode()
    if "\\(" in markdown or "\\[" in markdown:
        source = _outside(source, lambda text: _FORMULAS.sub(_dollars, text))
    if "||" in markdown:
        source = _with_spoilers(source)
    return source


def _with_spoilers(source: bytes) -> bytes:
    """Mark spoilers; they may contain code, but code contains no spoilers."""
    masked = bytearray(source)
    for start, end in _regions(source, _WHOLE):
        masked[start:end] = b"x" * (end - start)
    output, last = bytearray(), 0
    for match in _SPOILERS.finditer(masked):
        start, end = match.span(1)
        output += source[last : match.start()] + SPOILER.encode()
        output += source[start:end] + END_SPOILER.encode()
        last = match.end()
    return bytes(output + source[last:])


def _outside(source: bytes, change: Callable[[str], str]) -> bytes:
    regions = list(_regions(source, _WHOLE + _LINKS))
    bounds = [0, *(at for region in regions for at in region), len(source)]
    pieces = [source[start:end] for start, end in pairwise(bounds)]
    pieces[::2] = [change(piece.decode()).encode() for piece in pieces[::2]]
    return b"".join(pieces)


def _regions(source: bytes, kinds: Sequence[str]) -> Iterator[tuple[int, int]]:
    end = 0
    for event, span in parse(source):
        begins = isinstance(event, dict) and "End" not in event and name(event) in kinds
        if begins and span["start"] >= end:
            yield span["start"], span["end"]
            end = span["end"]


def _dollars(match: re.Match[str]) -> str:
    """Convert LaTeX's brackets to dollars, unless they contain plain words."""
    latex = (match["block"] or match["line"]).strip()
    if not _looks_like_math(latex):
        return match[0]
    return f"$${FORMULA}{latex}$$" if match["block"] else f"${FORMULA}{latex}$"


def _literal(source: bytes, events: Events) -> Iterator[int]:
    """Yield positions of literal characters that the parser mistook for markup.

    Examples: two prices, two variables of a shell, "about", a product, `__init__`.
    """
    for event, span in events:
        start, end = span["start"], span["end"]
        if event == {"Start": "Strikethrough"}:
            if source[start : start + 2] != b"~~":
                yield from (start, end - 1)
        elif event in ({"Start": "Emphasis"}, {"Start": "Strong"}):
            if _is_in_a_word(source, start, end):
                width = 2 if event == {"Start": "Strong"} else 1
                yield from (*range(start, start + width), *range(end - width, end))
        elif isinstance(event, dict) and "InlineMath" in event:
            if "$" in event["InlineMath"]:
                yield start
            elif not _is_formula(event["InlineMath"], source, start, end):
                yield from (start, end - 1)


def _is_in_a_word(source: bytes, start: int, end: int) -> bool:
    if _DUNDER.fullmatch(source, start, end):
        return True
    return bool(_LETTER.match(source, max(start - 1, 0), start) and _LETTER.match(source, end))


def _is_formula(latex: str, source: bytes, start: int, end: int) -> bool:
    if latex.startswith(FORMULA):
        return True
    around = source[max(start - 1, 0) : start] + source[end : end + 1]
    return not re.search(rb"\w", around) and _looks_like_math(latex)


def _looks_like_math(latex: str) -> bool:
    return len(latex) <= 3 or _FORMULA_SIGNS.search(latex) is not None


def definitions(source: bytes) -> Iterator[tuple[str, str]]:
    """Yield the link references that the source defines: label and source text."""
    import pyromark

    by_label = pyromark.reference_definitions(source.decode(), options=pyromark.Options(OPTIONS))
    for label, definition in by_label.items():
        span = definition["span"]
        yield label, source[span["start"] : span["end"]].decode().strip()
