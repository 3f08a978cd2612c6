"""Patterns in ripgrep's syntax, written anew for Python's engine so that both find the same.

Python's syntax looks alike and often means something else: `a*+`, `[a&&b]`, `\\Z`, `{`, `\\w` for
accents. So each pattern is read by ripgrep's rules (https://docs.rs/regex/latest/regex/#syntax),
and what is written contains none of Python's own classes. Whether a line matches is all that
counts: which part of it does is not, so greed is left out.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from agent.tools.files import regex_charset
from agent.tools.files.regex_members import DEEPEST, BadPattern, Flags, Members

_BEYOND = ("(?=", "(?!", "(?<=", "(?<!", "(?P=", "(?P>")
_COUNT = re.compile(r"\{([0-9]{1,9})(,([0-9]{1,9})?)?\}")
_NAME = re.compile(r"\(\?P?<([A-Za-z_][A-Za-z0-9_.\[\]]*)>")
_FLAGS = re.compile(r"\(\?([imsUuxR]*)(-[imsUuxR]+)?([:)])")
_NEVER = "(?!)"


def translated(pattern: str, *, ignore_case: bool, narrow: bool) -> str:
    """For `re`, without flags, to be looked for in one line; `narrow` in lines of ASCII.

    Raises `BadPattern`.
    """
    return _Reader(pattern, narrow).read(Flags(fold=ignore_case))


class _Reader(Members):
    def __init__(self, pattern: str, narrow: bool) -> None:
        super().__init__(pattern, narrow)
        self._names: set[str] = set()

    def read(self, flags: Flags) -> str:
        found = self._group(flags)
        if self._at < len(self._pattern):
            raise BadPattern("unopened group")
        return found

    def _group(self, flags: Flags) -> str:
        """Alternatives up to a closing bracket or the end."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise BadPattern("nested too deep")
        branches: list[list[str]] = [[]]
        while (char := self._next(flags)) and char != ")":
            here = branches[-1]
            if char == "|":
                self._at += 1
                branches.append([])
            elif char in "*+?{":
                if not here:
                    raise BadPattern("repetition operator missing expression")
                here[-1] = f"(?:{here[-1]}){self._repetition()}"
            elif char == "(" and (found := self._set_flags(flags)) is not None:
                flags = found
                # What follows cannot repeat them.
                branches[-1] = [f"(?:{''.join(here)})"] if here else []
                if self._next(flags) in tuple("*+?{"):
                    raise BadPattern("repetition operator missing expression")
            else:
                here.append(self._opened(flags) if char == "(" else self._atom(flags))
        self._depth -= 1
        return "|".join(map("".join, branches))

    def _next(self, flags: Flags) -> str:
        while flags.spaced and self._pattern[self._at : self._at + 1].isspace():
            self._at += 1
        if flags.spaced and self._pattern[self._at : self._at + 1] == "#":
            self._at = len(self._pattern)
        return self._pattern[self._at : self._at + 1]

    def _repetition(self) -> str:
        char = self._pattern[self._at]
        if char == "{":
            count = _COUNT.match(self._pattern, self._at)
            if count is None:
                raise BadPattern("a literal { must be escaped: \\{")
            low, high = int(count[1]), int(count[3] or count[1])
            if low > high:
                raise BadPattern("invalid repetition count range, the start must be <= the end")
            self._at, char = count.end(), count[0]
        else:
            self._at += 1
        if self._pattern[self._at : self._at + 1] == "?":
            self._at += 1
        return char

    def _set_flags(self, flags: Flags) -> Flags | None:
        """The flags that hold from here on, after `(?i)` and the like."""
        found = _FLAGS.match(self._pattern, self._at)
        if found is None or found[3] != ")":
            return None
        if found[0] == "(?)":
            raise BadPattern("repetition operator missing expression")
        self._at = found.end()
        return _changed(flags, found)

    def _opened(self, flags: Flags) -> str:
        if self._pattern.startswith(_BEYOND, self._at):
            raise BadPattern("look-around and back-references are not supported")
        if named := _NAME.match(self._pattern, self._at):
            if named[1] in self._names:
                raise BadPattern("duplicate capture group name")
            self._names.add(named[1])
            self._at = named.end()
        elif found := _FLAGS.match(self._pattern, self._at):
            self._at, flags = found.end(), _changed(flags, found)
        elif self._pattern.startswith("(?", self._at):
            raise BadPattern("unrecognized flag or group")
        else:
            self._at += 1
        inner = self._group(flags)
        if not self._pattern.startswith(")", self._at):
            raise BadPattern("unclosed group")
        self._at += 1
        return f"(?:{inner})"

    def _atom(self, flags: Flags) -> str:
        char = self._pattern[self._at]
        self._at += 1
        if char == "[":
            return _written(self._class(flags))
        if char in "^$":
            return r"\A" if char == "^" else r"\Z"
        if char == ".":
            return _written(regex_charset.ALL if flags.dots else regex_charset.negated(((10, 10),)))
        if char != "\\":
            return _written(self._folded(regex_charset.single(char), flags))
        if (place := self._place()) is not None:
            return place
        return _written(self._folded(self._escaped(flags), flags))

    def _place(self) -> str | None:
        """An escape that means a place and no character."""
        char = self._pattern[self._at : self._at + 1]
        if char not in ("A", "z", "b", "B", "<", ">"):
            return None
        self._at += 1
        if self._pattern.startswith("{", self._at) and char == "b":
            raise BadPattern("\\b{…} is not supported")
        if char in "Az":
            return r"\A" if char == "A" else r"\Z"
        word = _written(regex_charset.word(narrow=self._narrow))
        begins, ends = f"(?<!{word})(?={word})", f"(?<={word})(?!{word})"
        if char in "<>":
            return begins if char == "<" else ends
        if self._narrow:
            return r"\b" if char == "b" else r"(?!\b)"
        between = f"(?:{begins}|{ends})"
        return between if char == "b" else f"(?!{between})"


def _changed(flags: Flags, found: re.Match[str]) -> Flags:
    given = found[1] + (found[2] or "")
    if len(set(given)) != len(given):
        raise BadPattern("duplicate flag")
    if "u" in (found[2] or ""):
        raise BadPattern("(?-u) is not supported")
    for names, on in ((found[1], True), ((found[2] or "")[1:], False)):
        for name, field in (("i", "fold"), ("s", "dots"), ("x", "spaced")):
            if name in names:
                flags = replace(flags, **{field: on})
    return flags


def _written(ranges: Sequence[tuple[int, int]]) -> str:
    """A class of Python's syntax; single characters stay readable."""
    if not ranges:
        return _NEVER
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return re.escape(chr(ranges[0][0]))
    return "[" + "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges) + "]"
