"""Compiler of ripgrep patterns for RE2, which replaces its engine.

Both match in linear time and omit look-around and back-references. Syntax that RE2 reads
differently (`\\w` and `\\d` of ASCII only, nested classes, a literal `{`) is translated or
rejected, by ripgrep's rules: https://docs.rs/regex/latest/regex/#syntax
"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from re2 import _Regexp

_BEYOND = "look-around and back-references are not supported"
_SETS = "nested classes and &&, -- and ~~ in them need ripgrep; escape what is meant literally"
_COUNT = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_HEX = re.compile(r"\\[uU](?:\{([0-9A-Fa-f]{1,8})\}|(?<=u)([0-9A-Fa-f]{4})|([0-9A-Fa-f]{8}))")
_BRACES = re.compile(r"\\[pPx]\{[^{}]*\}")
_POSIX = re.compile(r"\[:\^?[a-z]+:\]")
_GROUP = re.compile(r"\(\?(?:=|!|<=|<!|P=|P>)")
# Python's name for these, or octal: unknown to ripgrep.
_REFUSED = {
    **dict.fromkeys("0123456789", _BEYOND),
    **dict.fromkeys("<>", r"use \b where a word begins or ends"),
    **dict.fromkeys("CEGQXZ", "unrecognized escape sequence"),
}
# Meaning in ripgrep, for the inside of a class.
_DIGIT = (r"\p{Nd}", r"\P{Nd}")
_SPACE = (
    r"\t-\r\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}",
    r"\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}"
    r"\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff}",
)
_WORD = (
    r"\pL\pM\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}"
    r"\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189}",
    r"\p{No}\p{Pd}\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Po}\pS\pZ\p{Cc}\p{Co}",
)
# Positions where RE2's ASCII-only `\b` can be replaced with a neighbour. Only whether a line
# matches counts, so a neighbour may be part of the match at both ends of a pattern.
_WORDS = r"\((?:\?:)?(?:\w+\|)*\w+\)"
_BEGINS = re.compile(rf"\A(\(\?[ims]+\))?\\b(?=\w|\\[wd]|{_WORDS})")
_ENDS = re.compile(rf"((?:(?<![\\\w])|\\[bBdDsSwW])\w+|\\[wd]\+?|{_WORDS})\\b$")
_CLASSES = {"d": _DIGIT, "s": _SPACE, "w": _WORD}


class BadPattern(ValueError):
    """Pattern error; the text is a sentence for the model."""


def compile_pattern(pattern: str, *, ignore_case: bool) -> "_Regexp":
    """Compile a pattern for the bytes of one line. Raises `BadPattern`."""
    # Imported for a search without ripgrep: most machines never need it.
    import re2

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    pattern = _ENDS.sub(r"\1(?:\\W|$)", _BEGINS.sub(r"\1(?:^|\\W)", pattern))
    translated = _Reader(pattern).read()
    try:
        return re2.compile(translated.encode("utf-8", "surrogateescape"), options)
    except re2.error as exc:
        detail = exc.args[0] if exc.args else "unusable"
        text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
        raise BadPattern(text) from None


class _Reader:
    """Translator of a pattern for RE2, in one pass."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def read(self) -> str:
        parts = []
        while self._at < len(self._pattern):
            char = self._pattern[self._at]
            if char == "\\":
                parts.append(self._escape(inside=False))
            elif char == "[":
                parts.append(self._class())
            elif char == "{":
                parts.append(self._take(_COUNT, r"a literal { must be escaped: \{"))
            elif _GROUP.match(self._pattern, self._at):
                raise BadPattern(_BEYOND)
            else:
                parts.append(char)
                self._at += 1
        return "".join(parts)

    def _take(self, form: re.Pattern[str], refusal: str) -> str:
        match = form.match(self._pattern, self._at)
        if match is None:
            raise BadPattern(refusal)
        self._at = match.end()
        return match[0]

    def _escape(self, *, inside: bool) -> str:
        """Translate an escape sequence; `inside`: within a class."""
        char = self._pattern[self._at + 1 : self._at + 2]
        if char in _REFUSED:
            raise BadPattern(f"\\{char}: {_REFUSED[char]}")
        if char in ("u", "U"):
            match = _HEX.match(self._pattern, self._at)
            if match is None:
                raise BadPattern(f"\\{char} needs hexadecimal digits of a character")
            self._at = match.end()
            return rf"\x{{{match[1] or match[2] or match[3]}}}"
        if braces := _BRACES.match(self._pattern, self._at):
            self._at = braces.end()
            return braces[0]
        self._at += 2
        if char.lower() not in _CLASSES:
            return f"\\{char}"
        plain, negated = _CLASSES[char.lower()]
        if inside:
            return negated if char.isupper() else plain
        return f"[{'^' if char.isupper() else ''}{plain}]"

    def _class(self) -> str:
        """Translate a class, starting at its opening bracket."""
        start = re.compile(r"\[\^?\]?").match(self._pattern, self._at)
        assert start is not None
        self._at = start.end()
        parts = [start[0]]
        while (char := self._pattern[self._at : self._at + 1]) != "]":
            if not char:
                raise BadPattern("unclosed character class")
            if self._pattern.startswith(("&&", "--", "~~"), self._at):
                raise BadPattern(_SETS)
            if char == "[":
                parts.append(self._take(_POSIX, _SETS))
            elif char == "\\":
                parts.append(self._escape(inside=True))
            else:
                parts.append(char)
                self._at += 1
        self._at += 1
        return "".join([*parts, "]"])
