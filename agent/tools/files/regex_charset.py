"""Sets of characters, as ripgrep's patterns know them: sorted ranges of code points.

For texts of ASCII alone (`narrow`) they are smaller, and nothing of Unicode is looked up.
"""

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from functools import cache
from itertools import chain

Ranges = tuple[tuple[int, int], ...]

# Without surrogates: they stand for bytes that are no text, which no pattern matches.
ALL: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))
SPACE: Ranges = (
    *((9, 13), (32, 32), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
    *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
)
_DIGITS: Ranges = ((48, 57),)
_LETTERS: Ranges = ((65, 90), (97, 122))
# Letters in circles and squares: symbols that count as alphabetic.
_ENCLOSED: Ranges = (
    *((0x24B6, 0x24E9), (0x1F130, 0x1F149), (0x1F150, 0x1F169), (0x1F170, 0x1F189)),
)
_JOINERS: Ranges = ((0x200C, 0x200D),)
# The names between [: and :]; they mean ASCII.
POSIX: dict[str, Ranges] = {
    "alnum": (*_DIGITS, *_LETTERS),
    "alpha": _LETTERS,
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": _DIGITS,
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": (*_DIGITS, (65, 90), (95, 95), (97, 122)),
    "xdigit": (*_DIGITS, (65, 70), (97, 102)),
}
# With the two letters of Unicode that are another case of ASCII's k and s.
_NARROW_WORD: Ranges = (*POSIX["word"], (0x17F, 0x17F), (0x212A, 0x212A))
_LONG_NAMES = {
    **{"letter": "L", "mark": "M", "number": "N", "punctuation": "P", "symbol": "S"},
    **{"separator": "Z", "other": "C", "uppercaseletter": "Lu", "lowercaseletter": "Ll"},
    **{"titlecaseletter": "Lt", "decimalnumber": "Nd", "control": "Cc", "any": "", "ascii": "-"},
}
# Where characters are assigned; the rest is found by arithmetic.
_ASSIGNED = (range(0x40000), range(0xE0000, 0xE0200))
_CASED = 0x1F000


def single(char: str) -> Ranges:
    return ((ord(char), ord(char)),)


def union(*sets: Ranges) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(chain.from_iterable(sets)):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(high, merged[-1][1])
        else:
            merged.append((low, high))
    return tuple(merged)


def minus(one: Ranges, other: Ranges) -> Ranges:
    left: list[tuple[int, int]] = []
    for low, high in one:
        for start, end in other:
            if end < low or start > high:
                continue
            if low < start:
                left.append((low, start - 1))
            low = end + 1
        if low <= high:
            left.append((low, high))
    return tuple(left)


def negated(one: Ranges) -> Ranges:
    return minus(ALL, one)


def common(one: Ranges, other: Ranges) -> Ranges:
    return minus(one, negated(other))


def digits(*, narrow: bool) -> Ranges:
    return _DIGITS if narrow else _of_category("Nd")


def word(*, narrow: bool) -> Ranges:
    """What `\\w` means: letters, marks, digits, connectors and joiners."""
    return _NARROW_WORD if narrow else _wide_word()


def named(name: str) -> Ranges | None:
    """What `\\p{name}` means; None for a name that is not known: scripts are not."""
    plain = name.casefold().replace("_", "").replace(" ", "").replace("-", "")
    short = _LONG_NAMES.get(plain)
    if short is None:
        short = plain[:1].upper() + plain[1:]
        if not 1 <= len(short) <= 2 or not any(c.startswith(short) for c in _categories()):
            return None
    return ALL if short == "" else POSIX["ascii"] if short == "-" else _of_category(short)


def folded(one: Ranges, *, narrow: bool) -> Ranges:
    """With every other case of what is in it."""
    starts = [low for low, _ in one]

    def holds(point: int) -> bool:
        at = bisect_right(starts, point) - 1
        return at >= 0 and point <= one[at][1]

    groups = _narrow_cases() if narrow else _cases()
    added = [group for group in groups if any(map(holds, group))]
    return union(one, *(tuple((point, point) for point in group) for group in added))


@cache
def _wide_word() -> Ranges:
    found = map(_of_category, ("L", "M", "Nd", "Nl", "Pc"))
    return union(*found, _ENCLOSED, _JOINERS)


@cache
def _of_category(name: str) -> Ranges:
    return union(*(found for each, found in _categories().items() if each.startswith(name)))


@cache
def _categories() -> dict[str, Ranges]:
    """The ranges of each general category, by its two letters."""
    found: dict[str, list[tuple[int, int]]] = {}
    begin, last = 0, unicodedata.category("\0")
    for point in chain.from_iterable(_ASSIGNED):
        category = unicodedata.category(chr(point))
        if category != last or point == _ASSIGNED[1].start:
            found.setdefault(last, []).append((begin, point - 1))
            begin, last = point, category
    found.setdefault(last, []).append((begin, _ASSIGNED[1].stop - 1))
    # Between the two a run of what is unassigned goes on.
    found["Cn"].append((_ASSIGNED[0].stop, _ASSIGNED[1].start - 1))
    found["Cn"] += [(0xE0200, 0xEFFFF), (0xFFFFE, 0xFFFFF), (0x10FFFE, 0x10FFFF)]
    found["Co"] += [(0xF0000, 0xFFFFD), (0x100000, 0x10FFFD)]
    return {name: union(tuple(each)) for name, each in found.items() if name != "Cs"}


@cache
def _cases() -> tuple[tuple[int, ...], ...]:
    """Characters that differ in case alone, by Unicode's simple folding."""
    groups: dict[str, list[int]] = {}
    for point in range(_CASED):
        char = chr(point)
        key = next((one for one in (char.casefold(), char.lower()) if len(one) == 1), char)
        groups.setdefault(key, []).append(point)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


@cache
def _narrow_cases() -> tuple[tuple[int, ...], ...]:
    more = {"k": 0x212A, "s": 0x17F}
    letters: Iterable[str] = map(chr, range(97, 123))
    return tuple((ord(c), ord(c.upper()), *((more[c],) if c in more else ())) for c in letters)
