"""Secrets within a text: an argument of a program, an address, a header in one line."""

import re
from collections.abc import Iterator, Sequence

from gateway.config.references import has_reference

STARS = "**********"
# A name that ends as those of secrets do: at the start of a word of it, or in camel case.
_NAMED = (
    r"(?:(?<![a-zA-Z])(?i:(?:access|private|auth)?[_-]?(?:token|secret|api[_-]?key|key)"
    r"|passwords?|passwd|passphrase|pwd|authorization)"
    r"|(?<=[a-z])(?:Token|Secret|Key|Password))"
)
_FLAG = re.compile(rf"--?[\w.-]*{_NAMED}$")
_FOUND = (
    # NAME=…, "name": "…", Authorization: Bearer …
    re.compile(rf"""{_NAMED}["']?\s*[=:]\s*["']?((?i:(?:bearer|basic|token)\s+)?[^\s&"']+)"""),
    re.compile(r"(?i:\bbearer)\s+([^\s&\"']+)"),
    # What stands before the host of an address.
    re.compile(r"://([^/?#\s]*)@"),
    # What makers of keys let them begin with.
    re.compile(r"\b((?:sk-|gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|AKIA)[\w-]{8,})"),
)


def mask_text(text: str) -> str:
    """The text with stars for what looks like a secret; a reference stays as it is written."""
    for begin, end in sorted(_spans(text), reverse=True):
        text = text[:begin] + STARS + text[end:]
    return text


def starred_words(words: Sequence[str]) -> list[str]:
    """The same of a program's arguments: also what follows such as `--token`."""
    return [STARS if whole else mask_text(word) for word, whole in _told(words)]


def secrets_of(words: Sequence[str]) -> Iterator[str]:
    """Each secret in a program's arguments."""
    for word, whole in _told(words):
        if whole:
            yield word
        else:
            yield from (word[begin:end] for begin, end in _spans(word))


def _told(words: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each with whether the whole of it is a secret."""
    before = ""
    for word in words:
        whole = _FLAG.match(before) is not None and bool(word) and not word.startswith("--")
        yield word, whole and not has_reference(word)
        before = word


def _spans(text: str) -> list[tuple[int, int]]:
    """Where the secrets stand; none within another."""
    found: list[tuple[int, int]] = []
    for pattern in _FOUND:
        for match in pattern.finditer(text):
            begin, end = match.span(1)
            inside = any(begin < there[1] and there[0] < end for there in found)
            if begin < end and not inside and not has_reference(match[1]):
                found.append((begin, end))
    return found
