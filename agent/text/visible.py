"""Escaping of everything that a screen would hide or misrepresent.

`escape_for_approval` is for text that a person approves, `escape_invisible` for all other text that
people read.
"""

import re
import unicodedata
from functools import cache

# Letters, marks and symbols of Unicode that have no visible glyph.
_HOLLOW = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc\U0001107f\U00016fe4\U0001d159"
)
_SELECTORS = ("\u180b-\u180d\u180f\ufe00-\ufe0f", "\U000e0100-\U000e01ef")
_HIDDEN_MARK = re.compile(f"[{''.join(_SELECTORS)}]")
# Visible Arabic and Syriac signs whose category is "format".
_DRAWN = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2")
# Emoji and ideographs of Unicode versions newer than this Python's.
_NEWER = re.compile("[\U0001f000-\U0001faff\U00020000-\U000323af]")
# More marks on a base character would cover neighbouring lines.
_MAX_MARKS_PROSE, _MAX_MARKS_EXACT = 8, 4

_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f"
    "\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
# Scripts whose characters join: a joiner or non-joiner between two of them changes their shape.
_JOINING = (
    "\u0620-\u06ff\u0710-\u077f\u07c0-\u07ff\u0840-\u086f\u08a0-\u0dff\u1000-\u109f\u1780-\u17df"
    "\u1820-\u18aa\ua980-\ua9df\ufb50-\ufdfb\ufe70-\ufefc"
)
# Scripts without spaces, where a zero-width space marks a possible line break.
_UNSPACED = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17df"
_TAG_FLAG = "|".join(
    "".join(chr(0xE0000 + ord(char)) for char in region) for region in ("gbeng", "gbsct", "gbwls")
)
# Sequences in prose whose invisible parts affect the visible text.
_SEQUENCE = (
    rf"(?<=[{_EMOJI}#*0-9])[\ufe0e\ufe0f]"
    rf"|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])"
    rf"|(?<=[{_JOINING}])[\u200c\u200d](?=[{_JOINING}])"
    rf"|(?<=[{_UNSPACED}])\u200b(?=[{_UNSPACED}])"
    rf"|(?<=\U0001f3f4)(?:{_TAG_FLAG})\U000e007f"
)
# Everything except clearly plain characters; only for speed.
_UNUSUAL = (
    "[^\t\n -~\u00a1-\u00ac\u00ae-\u02ff\u0400-\u0482\u3041-\u3096\u4e00-\u9fff\uac00-\ud7a3]"
)
_UNUSUAL_ASCII = re.compile("[^\t\n -~]")
_LINE_ENDS = {ord("\t"): "\\u{9}", ord("\n"): "\\u{a}"}


def escape_invisible(text: str) -> str:
    r"""Escape everything invisible in prose as `\u{200b}`.

    Joiners, variation selectors and the like stay where a script or an emoji needs them.
    """
    return _in_prose(text).sub(_escape_in_prose, text.replace("\r\n", "\n"))


def escape_line(text: str) -> str:
    """Escape text that belongs on one line, such as a file name, including tabs and line ends."""
    return _in_prose(text).sub(_escape_in_prose, text).translate(_LINE_ENDS)


def escape_for_approval(text: str) -> str:
    """Escape text for approval: only letters, digits, punctuation, symbols, marks on letters, plain
    spaces, tabs and line ends stay."""
    return _in_question(text).sub(_escape_in_question, text)


def hidden_character(text: str) -> str | None:
    """Return the first character that `escape_line` would escape, as in "U+202E", or None."""
    escaped = (
        match[0] for match in _in_prose(text).finditer(text) if _escape_in_prose(match) != match[0]
    )
    char = next(escaped, None) or next((char for char in text if char in "\t\n"), None)
    return None if char is None else f"U+{ord(char):04X}"


def _in_prose(text: str) -> re.Pattern[str]:
    return _UNUSUAL_ASCII if text.isascii() else _patterns()[0]


def _in_question(text: str) -> re.Pattern[str]:
    return _UNUSUAL_ASCII if text.isascii() else _patterns()[1]


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Compile the patterns for prose and for approval on first use: it takes 10 ms."""
    return re.compile(rf"(?P<sequence>{_SEQUENCE})|{_UNUSUAL}"), re.compile(_UNUSUAL)


def _escape_in_prose(match: re.Match[str]) -> str:
    char = match[0]
    if match.lastgroup:
        return char
    is_shown = (
        _is_drawn(char)
        or _is_mark(match, _MAX_MARKS_PROSE)
        or unicodedata.category(char) == "Zs"
        or char in _DRAWN
        or (unicodedata.category(char) == "Cn" and _NEWER.match(char) is not None)
    )
    return char if is_shown else _escape(char)


def _escape_in_question(match: re.Match[str]) -> str:
    char = match[0]
    is_shown = _is_drawn(char) or (_is_mark(match, _MAX_MARKS_EXACT) and _is_on_a_letter(match))
    return char if is_shown else _escape(char)


def _is_drawn(char: str) -> bool:
    """Return whether a character is a visible letter, number, punctuation mark or symbol."""
    return unicodedata.category(char)[0] in "LNPS" and char not in _HOLLOW


def _is_mark(match: re.Match[str], max_marks: int) -> bool:
    """Return whether a character is a visible mark, within `max_marks` of its base character."""
    char, text, at = match[0], match.string, match.start()
    if unicodedata.category(char)[0] != "M" or char in _HOLLOW or _HIDDEN_MARK.match(char):
        return False
    before = text[max(at - max_marks, 0) : at]
    return len(before) < max_marks or not all(unicodedata.category(c)[0] == "M" for c in before)


def _is_on_a_letter(match: re.Match[str]) -> bool:
    text, at = match.string, match.start() - 1
    while at >= 0 and unicodedata.category(text[at])[0] == "M":
        at -= 1
    return at >= 0 and unicodedata.category(text[at])[0] == "L" and text[at] not in _HOLLOW


def _escape(char: str) -> str:
    return f"\\u{{{ord(char):x}}}"


def replace_lone_surrogates(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
