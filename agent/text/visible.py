"""Text with nothing hidden in it: one list of what is shown as itself, everything else escaped.

`escape_for_approval` is for what a person decides on, `escape_invisible` for all else that
people read.
"""

import re
import unicodedata

# What Unicode counts among letters, marks and symbols although a screen shows nothing for it.
_HOLLOW = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufffc\U0001107f\U00016fe4\U0001d159"
)
_SELECTORS = ("\u180b-\u180d\u180f\ufe00-\ufe0f", "\U000e0100-\U000e01ef")
_HIDDEN_MARK = re.compile(f"[{''.join(_SELECTORS)}]")
# Signs of Arabic and Syriac that are drawn although their category says "format".
_DRAWN = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2")
# Emoji and ideographs of a Unicode that is newer than this Python's.
_NEWER = re.compile("[\U0001f000-\U0001faff\U00020000-\U000323af]")
# More marks on one letter cover the lines around it.
_MARKS_PROSE, _MARKS_EXACT = 8, 4

_EMOJI = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2900-\u297f"
    "\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
# Scripts whose letters join: a joiner or non-joiner between two of them changes what is seen.
_JOINING = (
    "\u0620-\u06ff\u0710-\u077f\u07c0-\u07ff\u0840-\u086f\u08a0-\u0dff\u1000-\u109f\u1780-\u17df"
    "\u1820-\u18aa\ua980-\ua9df\ufb50-\ufdfb\ufe70-\ufefc"
)
# Scripts without blanks between words, in which a space of no width says where a line may end.
_UNSPACED = "\u0e01-\u0eff\u1000-\u109f\u1780-\u17df"
_TAG_FLAG = "|".join(
    "".join(chr(0xE0000 + ord(letter)) for letter in land) for land in ("gbeng", "gbsct", "gbwls")
)
# The few sequences in prose whose invisible parts belong to what is seen.
_SEQUENCE = (
    rf"(?<=[{_EMOJI}#*0-9])[\ufe0e\ufe0f]"
    rf"|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])"
    rf"|(?<=[{_JOINING}])[\u200c\u200d](?=[{_JOINING}])"
    rf"|(?<=[{_UNSPACED}])\u200b(?=[{_UNSPACED}])"
    rf"|(?<=\U0001f3f4)(?:{_TAG_FLAG})\U000e007f"
)
# Everything but what surely is plain: for the sake of speed alone.
_UNUSUAL = (
    "[^\t\n -~\u00a1-\u00ac\u00ae-\u02ff\u0400-\u0482\u3041-\u3096\u4e00-\u9fff\uac00-\ud7a3]"
)
_IN_PROSE = re.compile(rf"(?P<sequence>{_SEQUENCE})|{_UNUSUAL}")
_IN_QUESTION = re.compile(_UNUSUAL)
_LINE_ENDS = {ord("\t"): "\\u{9}", ord("\n"): "\\u{a}"}


def escape_invisible(text: str) -> str:
    r"""Prose with everything that a screen would not show written as `\u{200b}`.

    Joiners, variation selectors and the like stay where a script or an emoji needs them.
    """
    return _IN_PROSE.sub(_prose, text.replace("\r\n", "\n"))


def escape_line(text: str) -> str:
    """The same for what belongs on one line, such as the name of a file."""
    return _IN_PROSE.sub(_prose, text).translate(_LINE_ENDS)


def escape_for_approval(text: str) -> str:
    """What is to be approved: letters, digits, punctuation, symbols, marks on letters, the plain
    blank, tab and line end are shown as themselves, and nothing else."""
    return _IN_QUESTION.sub(_question, text)


def hidden_character(text: str) -> str | None:
    """The first character that `escape_line` would escape, as in "U+202E"."""
    escaped = (match[0] for match in _IN_PROSE.finditer(text) if _prose(match) != match[0])
    char = next(escaped, None) or next((char for char in text if char in "\t\n"), None)
    return None if char is None else f"U+{ord(char):04X}"


def _prose(match: re.Match[str]) -> str:
    char = match[0]
    if match.lastgroup:
        return char
    is_shown = (
        _is_drawn(char)
        or _is_mark(match, _MARKS_PROSE)
        or unicodedata.category(char) == "Zs"
        or char in _DRAWN
        or (unicodedata.category(char) == "Cn" and _NEWER.match(char) is not None)
    )
    return char if is_shown else _escape(char)


def _question(match: re.Match[str]) -> str:
    char = match[0]
    is_shown = _is_drawn(char) or (_is_mark(match, _MARKS_EXACT) and _is_on_a_letter(match))
    return char if is_shown else _escape(char)


def _is_drawn(char: str) -> bool:
    """Whether it is a letter, a number, punctuation or a symbol that a screen shows."""
    return unicodedata.category(char)[0] in "LNPS" and char not in _HOLLOW


def _is_mark(match: re.Match[str], most: int) -> bool:
    """Whether it is a mark that shows, among the first `most` of its letter."""
    char, text, at = match[0], match.string, match.start()
    if unicodedata.category(char)[0] != "M" or char in _HOLLOW or _HIDDEN_MARK.match(char):
        return False
    before = text[max(at - most, 0) : at]
    return len(before) < most or not all(unicodedata.category(c)[0] == "M" for c in before)


def _is_on_a_letter(match: re.Match[str]) -> bool:
    text, at = match.string, match.start() - 1
    while at >= 0 and unicodedata.category(text[at])[0] == "M":
        at -= 1
    return at >= 0 and unicodedata.category(text[at])[0] == "L" and text[at] not in _HOLLOW


def _escape(char: str) -> str:
    return f"\\u{{{ord(char):x}}}"
