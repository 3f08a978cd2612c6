"""Detection of secrets in configuration values, and their names in secrets.json."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agent.security.secret_values import names_secret
from gateway.config.key_catalog import setting_at
from gateway.config.references import MADE, has_reference

STARS = "**********"

# A name whose last word is typical of secrets, in any common notation.
_NAMED = (
    r"(?:(?<![a-zA-Z])(?i:(?:access|private|auth)?[_-]?(?:token|secret|api[_-]?key|key)"
    r"|passwords?|passwd|passphrase|pwd|authorization)"
    r"|(?<=[a-z])(?:Token|Secret|Key|Password))"
)

_FLAG = re.compile(rf"--?[\w.-]*{_NAMED}$")

_PATTERNS = (
    # NAME=…, "name": "…", Authorization: Bearer …
    re.compile(rf"""{_NAMED}["']?\s*[=:]\s*["']?((?i:(?:bearer|basic|token)\s+)?[^\s&"']+)"""),
    re.compile(r"(?i:\bbearer)\s+([^\s&\"']+)"),
    # User information before the host of an address.
    re.compile(r"://([^/?#\s]*)@"),
    # Prefixes of vendors' keys.
    re.compile(r"\b((?:sk-|gh[opsur]_|github_pat_|glpat-|xox[abeprs]-|AKIA)[\w-]{8,})"),
)


def mask_text(text: str) -> str:
    """Return the text with secrets as stars; references are unchanged."""
    for begin, end in sorted(_spans(text), reverse=True):
        text = text[:begin] + STARS + text[end:]
    return text


def starred_words(words: Sequence[str]) -> list[str]:
    """Mask a program's arguments, including the value after an option such as `--token`."""
    return [STARS if whole else mask_text(word) for word, whole in _mark_secrets(words)]


def secrets_of(words: Sequence[str]) -> Iterator[str]:
    """Yield each secret in a program's arguments."""
    for word, whole in _mark_secrets(words):
        if whole:
            yield word
        else:
            yield from (word[begin:end] for begin, end in _spans(word))


def _mark_secrets(words: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield each word, and whether all of it is a secret."""
    before = ""
    for word in words:
        whole = _FLAG.match(before) is not None and bool(word) and not word.startswith("--")
        yield word, whole and not has_reference(word)
        before = word


def _spans(text: str) -> list[tuple[int, int]]:
    """Return the spans of secrets, without overlaps."""
    spans: list[tuple[int, int]] = []
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            begin, end = match.span(1)
            inside = any(begin < there[1] and there[0] < end for there in spans)
            if begin < end and not inside and not has_reference(match[1]):
                spans.append((begin, end))
    return spans


# Maps whose every value may be a secret.
_SECRET_MAPS = ("headers", "env")

# Characters of a key; paths, addresses and command lines contain others.
_KEY = re.compile(r"[A-Za-z0-9_-]{8,}")

_ODD = re.compile(r"[^A-Za-z0-9]+")


def is_secret(path: tuple[str, ...]) -> bool:
    """Return whether a text at this path is a secret; list indexes do not count."""
    words = [part for part in path if not part.isdecimal()]
    if len(words) > 1 and words[-2] in _SECRET_MAPS:
        return True
    return bool(words) and names_secret(words[-1])


def extract_secret(
    path: tuple[str, ...], value: Any, entry_name: str = ""
) -> tuple[Any, dict[str, str]]:
    """Return the value with each secret as `${NAME}`, and the secrets by name.

    `entry_name` is the list entry's own name, for names that do not change when the list grows.
    """
    match value:
        case str() if value and is_secret(path) and not has_reference(value):
            name = name_of(path, entry_name)
            return f"${{{name}}}", {name: value}
        case list():
            pairs = [
                extract_secret((*path, str(n)), item, _entry_name(item) or entry_name)
                for n, item in enumerate(value)
            ]
            return [entry for entry, _ in pairs], _merge(secrets for _, secrets in pairs)
        case dict():
            entries = {key: extract_secret((*path, key), v, entry_name) for key, v in value.items()}
            return (
                {key: entry for key, (entry, _) in entries.items()},
                _merge(secrets for _, secrets in entries.values()),
            )
        case _:
            return value, {}


def name_of(path: tuple[str, ...], entry_name: str = "") -> str:
    """Return the name in secrets.json for a secret at this path."""
    if name := setting_at(path).stored_as:
        return name
    words = list(path)
    if entry_name:
        first = next((n for n, word in enumerate(words) if word.isdecimal()), None)
        if first is not None:
            words[first] = entry_name
    return MADE + _ODD.sub("_", "_".join(words)).strip("_").upper()


def orphans(names: Iterable[str], before: str, texts: Iterable[str]) -> list[str]:
    """Return the names that `config set` created, used in `before` and in none of `texts`.

    Other names may belong to the person, who may also use them elsewhere.
    """
    remaining_texts = list(texts)
    return [
        name
        for name in names
        if name.startswith(MADE)
        and f"${{{name}}}" in before
        and not any(f"${{{name}}}" in text for text in remaining_texts)
    ]


def masked(value: Any, path: tuple[str, ...] = ()) -> Any:
    """Return a value for display: secrets as stars, references unchanged."""
    match value:
        case str() if value and is_secret(path) and not has_reference(value):
            return STARS
        case str() if "://" in value:  # may contain a password
            return mask_text(value)
        case list() if path[-1:] == ("args",) and all(isinstance(item, str) for item in value):
            return starred_words(value)
        case list():
            return [masked(item, (*path, str(n))) for n, item in enumerate(value)]
        case dict():
            return {key: masked(item, (*path, key)) for key, item in value.items()}
        case _:
            return value


def shortened(value: Any, name: str = "") -> Any:
    """Return a stranger's value for display; for a key, only its beginning and its length.

    A value is shortened only if its name and its characters show that it is a key, because stars
    could hide a program, a path or an address that a person is asked to trust.
    """
    match value:
        case str() if is_secret((name,)) and _KEY.fullmatch(value):
            return f"{value[:4]}… ({len(value)})"
        case list():
            return [shortened(item, name) for item in value]
        case dict():
            return {key: shortened(item, str(key)) for key, item in value.items()}
        case _:
            return value


def _entry_name(item: Any) -> str:
    if not isinstance(item, Mapping):
        return ""
    return str(item.get("model_name") or item.get("name") or "")


def _merge(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {name: text for part in parts for name, text in part.items()}
