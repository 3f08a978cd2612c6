"""Markdown made ready for the parser, so that it neither drops text nor alters code."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from gateway.channels.telegram.utf16 import mend

_CONTROLS = {code: " " for code in range(32) if chr(code) not in "\t\n"} | {127: " "}
_BREAK_TAG = re.compile(rb"<br\s*/?>", re.IGNORECASE)
# Escaping a tag may lay another one bare, one layer at a time.
_HTML_PASSES = 8
# The converter's time grows with the square of these.
_FORMULAS = 200
_BRACES = 200


def clean(markdown: str) -> str:
    """No lone surrogates and no control characters, which Telegram would blank out anyway."""
    text = mend(markdown).replace("\r\n", "\n").replace("\r", "\n")
    return text.translate(_CONTROLS)


def keep_tags(markdown: str) -> str:
    """Escape what the parser would take for HTML and drop: `Vec<String>`, `<details>`.

    Telegram has no use for HTML; it is shown as it is written. Raises ValueError when tags hide
    in more layers than an honest text has.
    """
    if "<" not in markdown:
        return markdown
    source = markdown.encode()
    for _ in range(_HTML_PASSES):
        tags = [(start, end) for kind, start, end in _spans(source) if kind in _HTML_KINDS]
        if not tags:
            return source.decode()
        bounds = [0, *(at for tag in tags for at in tag), len(source)]
        pieces = [source[start:end] for start, end in pairwise(bounds)]
        pieces[1::2] = [_shown(tag) for tag in pieces[1::2]]
        source = b"".join(pieces)
    raise ValueError("HTML in too many layers")


def may_hold_formulas(markdown: str) -> bool:
    """Whether LaTeX may be turned into Unicode: there is some, not too much, none in code."""
    count = markdown.count("\\(") + markdown.count("\\[")
    if not 0 < count <= _FORMULAS or markdown.count("{") > _BRACES:
        return False
    source = markdown.encode()
    codes = (source[start:end] for kind, start, end in _spans(source) if kind in _CODE_KINDS)
    return not any(b"\\(" in code or b"\\[" in code for code in codes)


_HTML_KINDS = ("Html", "InlineHtml")
_CODE_KINDS = ("Code", "CodeBlock")


def _shown(tag: bytes) -> bytes:
    return _BREAK_TAG.sub(b" ", tag).replace(b"<", b"\\<")


def _spans(source: bytes) -> Iterator[tuple[str, int, int]]:
    """What the parser finds, as (kind, first byte, end byte), in order."""
    import pyromark
    from telegramify_markdown.converter import STANDARD_OPTIONS

    payload: Any
    for payload, span in pyromark.events_with_range(source.decode(), options=STANDARD_OPTIONS):
        if isinstance(payload, dict):
            start = payload.get("Start")
            kinds = start if isinstance(start, dict) else payload
            yield next(iter(kinds)), span["start"], span["end"]
