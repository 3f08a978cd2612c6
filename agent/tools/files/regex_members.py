"""Single characters of a pattern, and classes of them, by ripgrep's rules."""

import re

from agent.records import frozen
from agent.tools.files import regex_charset
from agent.tools.files.regex_charset import Ranges

DEEPEST = 100
_CONTROLS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_HEX = {"x": 2, "u": 4, "U": 8}
_POSIX = re.compile(r"\[:(\^?)([a-z]+):\]")


class BadPattern(ValueError):
    """A sentence for the model."""


@frozen
class Flags:
    """What holds at a place of the pattern: `(?i)`, `(?s)` and `(?x)`."""

    fold: bool = False
    dots: bool = False
    spaced: bool = False


class Members:
    """Reads a pattern from its beginning; `narrow` is for lines of ASCII alone."""

    def __init__(self, pattern: str, narrow: bool) -> None:
        self._pattern = pattern
        self._narrow = narrow
        self._at = 0
        self._depth = 0

    def _folded(self, one: Ranges, flags: Flags) -> Ranges:
        return regex_charset.folded(one, narrow=self._narrow) if flags.fold else one

    def _escaped(self, flags: Flags) -> Ranges:
        """What an escape stands for; the backslash is read."""
        char = self._pattern[self._at : self._at + 1]
        self._at += 1
        narrow = self._narrow
        if char in _CONTROLS:
            return regex_charset.single(chr(_CONTROLS[char]))
        if char in _HEX:
            return regex_charset.single(self._hex(char))
        if char and char in "dDsSwW":
            kinds = {"d": regex_charset.digits, "w": regex_charset.word}
            kind = kinds.get(char.lower())
            found = regex_charset.SPACE if kind is None else kind(narrow=narrow)
            return regex_charset.negated(found) if char.isupper() else found
        if char in ("p", "P"):
            return self._property(flags, negated=char == "P")
        if char.isdigit():
            raise BadPattern("look-around and back-references are not supported")
        if not char:
            raise BadPattern("incomplete escape sequence")
        if not char.isascii() or char.isalnum() or char in "<>":
            raise BadPattern(f"unrecognized escape sequence \\{char}")
        return regex_charset.single(char)

    def _hex(self, kind: str) -> str:
        found = re.compile(rf"\{{([0-9A-Fa-f]{{1,8}})\}}|([0-9A-Fa-f]{{{_HEX[kind]}}})").match(
            self._pattern, self._at
        )
        point = int(found[1] or found[2], 16) if found else -1
        if found is None or point > 0x10FFFF or 0xD800 <= point < 0xE000:
            raise BadPattern(f"\\{kind} needs hexadecimal digits of a character")
        self._at = found.end()
        return chr(point)

    def _property(self, flags: Flags, *, negated: bool) -> Ranges:
        found = re.compile(r"\{(\^?)([^}]+)\}|([A-Za-z])").match(self._pattern, self._at)
        if found is None:
            raise BadPattern("incomplete escape sequence")
        self._at = found.end()
        name = found[2] or found[3]
        ranges = regex_charset.named(name.removeprefix("gc="))
        if ranges is None:
            raise BadPattern(f"\\p{{{name}}} is not known without ripgrep; \\p{{Lu}} and such are")
        ranges = self._folded(ranges, flags)
        return ranges if negated == bool(found[1]) else regex_charset.negated(ranges)

    def _class(self, flags: Flags) -> Ranges:
        """A class; its opening bracket is read."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise BadPattern("nested too deep")
        negated = self._took("^", flags)
        items: list[Ranges] = []
        while self._took("-", flags):
            items.append(regex_charset.single("-"))
        if not items and self._took("]", flags):
            items.append(regex_charset.single("]"))
        whole: Ranges = ()
        operator = ""
        while True:
            char = self._in_class(flags)
            if not char:
                raise BadPattern("unclosed character class")
            ahead = self._pattern[self._at : self._at + 2]
            if char == "]" or ahead in ("&&", "--", "~~"):
                one = self._folded(regex_charset.union(*items), flags)
                whole = _combined(whole, operator, one)
                items, operator = [], ahead
                self._at += 1 if char == "]" else 2
                if char == "]":
                    break
            else:
                items.append(self._item(flags))
        self._depth -= 1
        return regex_charset.negated(whole) if negated else whole

    def _item(self, flags: Flags) -> Ranges:
        posix = _POSIX.match(self._pattern, self._at)
        if posix and posix[2] in regex_charset.POSIX:
            self._at = posix.end()
            found = regex_charset.POSIX[posix[2]]
            return regex_charset.negated(found) if posix[1] else found
        if self._took("[", flags):
            return self._class(flags)
        low = self._member(flags)
        self._in_class(flags)
        ahead = self._pattern[self._at : self._at + 2]
        if not ahead.startswith("-") or ahead in ("--", "-]", "-"):
            return low
        self._at += 1
        self._in_class(flags)
        high = self._member(flags)
        if any(len(one) != 1 or one[0][0] != one[0][1] for one in (low, high)):
            raise BadPattern("invalid range boundary, must be a literal")
        if low > high:
            raise BadPattern("invalid character class range, the start must be <= the end")
        return regex_charset.minus(((low[0][0], high[0][0]),), ((0xD800, 0xDFFF),))

    def _member(self, flags: Flags) -> Ranges:
        if self._at >= len(self._pattern):
            raise BadPattern("unclosed character class")
        char = self._pattern[self._at]
        self._at += 1
        return self._escaped(flags) if char == "\\" else regex_charset.single(char)

    def _took(self, char: str, flags: Flags) -> bool:
        found = self._in_class(flags) == char
        self._at += found
        return found

    def _in_class(self, flags: Flags) -> str:
        while flags.spaced and self._pattern[self._at : self._at + 1].isspace():
            self._at += 1
        return self._pattern[self._at : self._at + 1]


def _combined(whole: Ranges, operator: str, one: Ranges) -> Ranges:
    if operator == "&&":
        return regex_charset.common(whole, one)
    if operator == "--":
        return regex_charset.minus(whole, one)
    if operator == "~~":
        return regex_charset.union(regex_charset.minus(whole, one), regex_charset.minus(one, whole))
    return one
