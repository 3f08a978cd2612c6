"""Which addresses Telegram opens when somebody touches the words that they stand under.

Any other is dropped by it without a word, so it has to be shown.
"""

import re

_CHARS = 2048
_WEB = re.compile(
    r"(?:https?|ftp)://(?:[\w.:%+-]*@)?"
    r"(?:[^\W_][\w-]{0,62}(?:\.[^\W_][\w-]{0,62})+\.?|\[[0-9a-f:.]+\])"
    r"(?::\d{1,5})?(?:[/?#][^\n]*)?",
    re.IGNORECASE,
)
_APP = re.compile(r"(?:tg|ton|tonsite)://[^\s]+", re.IGNORECASE)


def is_clickable(url: str) -> bool:
    """Absolute, with a host that has a dot: `localhost` and paths are nobody's address there."""
    known = _WEB.fullmatch(url) or _APP.fullmatch(url)
    return known is not None and len(url) <= _CHARS
