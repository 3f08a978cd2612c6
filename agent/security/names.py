"""What file names can pretend: other spellings of one name, and characters that hide."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

# Joiners belong to words of several scripts and to emoji; everything else of their kind (Cf)
# turns the reading direction or shows nothing at all.
_JOINERS = frozenset("\u200c\u200d")
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_SHORT = re.compile(r"([^~]{1,6})~\d+(\.[^.]{0,3})?")


def hidden_character(text: str) -> str | None:
    """The first character that no screen shows, as in "U+202E": controls, marks of direction."""
    if text.isascii() and text.isprintable():
        return None
    return next((f"U+{ord(char):04X}" for char in text if _hides(char)), None)


def printable(text: str) -> str:
    """The text with hidden characters, line ends too, written as escapes such as `\\u202e`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(char) if _hides(char) else char for char in text)


@lru_cache(maxsize=4096)
def folded(name: str) -> str:
    """One spelling for all that some file system takes for the same name.

    Case, composed characters, full width, ignored characters (HFS+), trailing dots and blanks
    and what follows a colon (Windows). For refusing only: whoever allows compares exactly.
    """
    text = name
    if not text.isascii():
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        text = "".join(char for char in text if unicodedata.category(char) != "Cf")
    return text.lower().split(":")[0].rstrip(" .") or name


def folded_path(path: Path) -> Path:
    """The path with each of its components folded."""
    return Path(*(part if part == path.anchor else folded(part) for part in path.parts))


def same_names(asked: Iterable[str], wanted: Iterable[str]) -> bool:
    """Whether components spell the wanted ones, also by their short names (`GIT~1`)."""
    return all(
        folded(one) == folded(other) or _is_short(one, other)
        for one, other in zip(asked, wanted, strict=True)
    )


def _is_short(name: str, wanted: str) -> bool:
    if "~" not in name or (found := _SHORT.fullmatch(folded(name))) is None:
        return False
    return found[1] == folded(wanted).replace(".", "")[:6]


def _hides(char: str) -> bool:
    return unicodedata.category(char) in _HIDDEN and char not in _JOINERS


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"
