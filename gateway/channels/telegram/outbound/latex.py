"""Conversion of LaTeX formulas to Unicode text."""

import re
from collections.abc import Callable

# The converter takes time quadratic in the length of a formula.
_CHARS = 600
_LATEX = re.compile(r"[\\^_]")
_COMMAND = re.compile(r"\\[a-zA-Z]")
# A formula must not become an unchecked address.
_ADDRESS = re.compile(r"\w\.\w*[^\W\d]|://|@|www", re.IGNORECASE)
_FAILURES = (ValueError, TypeError, LookupError, AttributeError, AssertionError, RecursionError)


def readable(latex: str) -> str | None:
    """Return the formula in plain characters, or None when only its source can be shown."""
    text = latex.strip()
    if len(text) > _CHARS:
        return None
    if _LATEX.search(text):
        text = _convert(text)
    text = re.sub(r"[^\S\n]+", " ", text).strip()
    return None if not text or _COMMAND.search(text) or _ADDRESS.search(text) else text


def _convert(latex: str) -> str:
    # Imported with the first formula, because the tables of symbols are large. The library's
    # documented `convert` leaves formulas without a command (`x^2`) unchanged and treats `$` in
    # them as an end; pylatexenc loses exponents, and unicodeit does not support fractions.
    from telegramify_markdown.latex_escape.helper import LatexToUnicodeHelper

    try:
        convert: Callable[[str], str] = LatexToUnicodeHelper().convert
        return convert(latex)
    except _FAILURES:
        return ""
