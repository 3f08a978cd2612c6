"""Text measured in Telegram's UTF-16 units: two for every character beyond U+FFFF.

https://core.telegram.org/api/entities#utf-16
"""

import unicodedata
from itertools import accumulate

_ZWJ = "\u200d"
# Invisible characters that Unicode does not classify as blank.
_HOLLOW = frozenset("\u115f\u1160\u2800\u3164\uffa0")


def units(text: str) -> int:
    """Return the length in the units of Telegram's limits and entities."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def offsets(text: str) -> list[int]:
    """Return the number of units before each character, and before the end."""
    if text.isascii():
        return list(range(len(text) + 1))
    return [0, *accumulate(2 if char > "\uffff" else 1 for char in text)]


def is_blank(text: str) -> bool:
    """Return whether the text has no visible characters; Telegram rejects it as empty."""
    return all(
        char.isspace() or char in _HOLLOW or unicodedata.category(char) in ("Cf", "Cc")
        for char in text
    )


def breaks_at(text: str, index: int) -> bool:
    """Return whether a cut before `index` does not split a visible character.

    A subset of https://unicode.org/reports/tr29/: joined emoji, marks, skin tones, variation
    selectors, flags, conjoining Hangul and line ends.
    """
    if not 0 < index < len(text):
        return True
    before, after = text[index - 1], text[index]
    if after < "\u0300":
        return before != _ZWJ and (before, after) != ("\r", "\n")
    if before == _ZWJ or _extends(after):
        return False
    if _is_flag_half(after):
        first = index
        while first > 0 and _is_flag_half(text[first - 1]):
            first -= 1
        return (index - first) % 2 == 0
    return not (_is_jamo(before) and "\u1160" <= after <= "\u11ff")


def _extends(char: str) -> bool:
    return (
        char == _ZWJ
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        or unicodedata.category(char) in ("Mn", "Me", "Mc")
    )


def _is_flag_half(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _is_jamo(char: str) -> bool:
    return "\u1100" <= char <= "\u11ff" or "\uac00" <= char <= "\ud7a3"
