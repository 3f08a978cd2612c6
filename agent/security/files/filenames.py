"""What file names can pretend: other spellings of one name."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

_SHORT = re.compile(r"([^~]{1,6})~\d+(\.[^.]{0,3})?")


@lru_cache(maxsize=4096)
def normalize_filename(name: str) -> str:
    """One spelling for all that some file system takes for the same name.

    Case, composed characters, full width, ignored characters (HFS+), trailing dots and blanks
    and what follows a colon (Windows). For refusing only: what allows compares exactly.
    """
    text = name
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    return text.lower().split(":")[0].rstrip(" .") or name


def folded_path(path: Path) -> Path:
    """The path with each of its components folded."""
    return Path(*(part if part == path.anchor else normalize_filename(part) for part in path.parts))


def same_names(names: Iterable[str], expected: Iterable[str]) -> bool:
    """Whether components spell the wanted ones, also by their short names (`GIT~1`)."""
    return all(
        normalize_filename(one) == normalize_filename(other) or _is_short(one, other)
        for one, other in zip(names, expected, strict=True)
    )


def _is_short(name: str, full_name: str) -> bool:
    if "~" not in name or (match := _SHORT.fullmatch(normalize_filename(name))) is None:
        return False
    return match[1] == normalize_filename(full_name).replace(".", "")[:6]
