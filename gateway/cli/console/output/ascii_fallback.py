"""ASCII replacements for terminals without UTF-8."""

import codecs
from typing import TextIO

_PLAIN = {
    **{"›": ">", "●": "*", "└": "|", "·": "-", "…": "...", "•": "*", "▌": "|", "✗": "x", "■": "#"},
    **{"↻": "~", "↪": ">", "✻": "*", "⏷": "v", "⏹": "#", "─": "-", "━": "-", "│": "|", "┃": "|"},
    **{"–": "-", "—": "-", "‘": "'", "’": "'", "“": '"', "”": '"', "→": "->", "█": "#", "░": "."},
    **dict.fromkeys("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "*"),
}
_NAME = "kore.plain"


def speaks_utf8(out: TextIO) -> bool:
    return "utf" in (out.encoding or "").replace("-", "").casefold()


def to_ascii(text: str) -> str:
    """Return the text with all replaceable characters as ASCII."""
    return "".join(_PLAIN.get(letter, letter) for letter in text)


def make_plain(out: TextIO) -> None:
    """Replace characters that `out` cannot encode, with a question mark as the last resort."""
    codecs.register_error(_NAME, _stand_in)
    reconfigure = getattr(out, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors=_NAME)


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter, "?") for letter in letters), error.end
