"""Docstrings as people write them: what they say in all, and of each argument."""

import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import field

from agent.records import frozen

_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Params|Returns?|Yields?|Raises|Examples?|Notes?|See Also):?"
)
_ARGUMENTS = frozenset({"Args", "Arguments", "Parameters", "Params"})
_UNDERLINE = re.compile(r"-{3,}")
# `city: where` and `city (str): where`; NumPy's `city : str` has its text below.
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:(?:\s+(.*))?")
_FIELD = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")
_OTHER_FIELD = re.compile(r":\w+[^:]*:")


@frozen
class Docstring:
    """The text in front of the sections, and what is said of each argument.

    Google's, NumPy's and Sphinx's ways to write sections are understood.
    """

    text: str
    arguments: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(docstring: str) -> "Docstring":
        lines = inspect.cleandoc(docstring).split("\n")
        text: list[str] = []
        told: dict[str, list[str]] = {}
        section = ""
        for n, line in enumerate(lines):
            if (found := _FIELD.fullmatch(line.strip())) or _OTHER_FIELD.match(line):
                section = "field"
                if found:
                    told[found[1]] = [found[2]]
            elif _opens(lines, n):
                section = line.rstrip(": ")
            elif not section:
                text.append(line)
            elif section == "field" and told and line.strip():
                told[next(reversed(told))].append(line)
            elif section in _ARGUMENTS:
                _take(line, lines[n + 1 :], told)
        return Docstring(
            "\n".join(text).strip(),
            {name: said for name, words in told.items() if (said := _joined(words))},
        )


def _opens(lines: list[str], n: int) -> bool:
    """Whether a section begins here: with a colon, or with a line under it."""
    if not _SECTION.fullmatch(lines[n]):
        return False
    return lines[n].endswith(":") or bool(lines[n + 1 :] and _UNDERLINE.fullmatch(lines[n + 1]))


def _take(line: str, following: list[str], told: dict[str, list[str]]) -> None:
    """A line of the arguments' section: a new argument, or more about the last one."""
    if not line.strip() or _UNDERLINE.fullmatch(line.strip()):
        return
    indent = _indent(line)
    if (found := _ENTRY.fullmatch(line.strip())) and (indent == 0 or _is_outermost(line, told)):
        below = next((other for other in following if other.strip()), "")
        # NumPy: what stands behind the colon is a type, and the text is indented below it.
        numpy = indent == 0 and _indent(below) > 0
        told[found[1]] = [" " * indent] + ([] if numpy else [found[2] or ""])
    elif told:
        told[next(reversed(told))].append(line)


def _is_outermost(line: str, told: Mapping[str, list[str]]) -> bool:
    """Arguments are indented alike; what is deeper belongs to one."""
    first = next(iter(told.values()), None)
    return first is None or _indent(line) <= len(first[0])


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _joined(words: Iterable[str]) -> str:
    return " ".join(" ".join(words).split())
