"""LaTeX as a chat can show it: in Unicode, as far as that goes."""

import re
from collections.abc import Callable

# What the converter takes grows with the square of a formula's length.
_CHARS = 600
_LATEX = re.compile(r"[\\^_]")
_COMMAND = re.compile(r"\\[a-zA-Z]")
# A formula must not become an unchecked address.
_ADDRESS = re.compile(r"\w\.\w*[^\W\d]|://|@|www", re.IGNORECASE)
_FAILURES = (ValueError, TypeError, LookupError, AttributeError, AssertionError, RecursionError)


def readable(latex: str) -> str | None:
    """The formula in plain characters; None when it can only be shown as it was written."""
    text = latex.strip()
    if len(text) > _CHARS:
        return None
    if _LATEX.search(text):
        text = _convert(text)
    text = re.sub(r"[^\S\n]+", " ", text).strip()
    return None if not text or _COMMAND.search(text) or _ADDRESS.search(text) else text


def _convert(latex: str) -> str:
    # Imported with the first formula: the tables of symbols are large.
    from telegramify_markdown.latex_escape.helper import LatexToUnicodeHelper

    try:
        convert: Callable[[str], str] = LatexToUnicodeHelper().convert
        return convert(latex)
    except _FAILURES:
        return ""
