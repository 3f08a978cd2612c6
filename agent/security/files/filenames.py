"""Comparison of file names that are spelled differently but name the same file."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

_SHORT = re.compile(r"([^~]{1,6})~\d+(\.[^.]{0,3})?")


@lru_cache(maxsize=4096)
def normalize_filename(name: str) -> str:
    """Return the same spelling for all names that some file system treats as equal.

    Normalizes case, composed characters, full-width characters, ignored characters (HFS+), trailing
    dots and blanks, and drops the part after a colon (Windows). Use it only to reject names; code
    that allows names compares them exactly.
    """
    text = name
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    return text.lower().split(":")[0].rstrip(" .") or name


def folded_path(path: Path) -> Path:
    """Return the path with each component normalized."""
    return Path(*(part if part == path.anchor else normalize_filename(part) for part in path.parts))


def same_names(names: Iterable[str], expected: Iterable[str]) -> bool:
    """Return whether the names equal the expected ones, also as short names such as `GIT~1`."""
    return all(
        normalize_filename(one) == normalize_filename(other) or _is_short(one, other)
        for one, other in zip(names, expected, strict=True)
    )


def _is_short(name: str, full_name: str) -> bool:
    if "~" not in name or (match := _SHORT.fullmatch(normalize_filename(name))) is None:
        return False
    return match[1] == normalize_filename(full_name).replace(".", "")[:6]
