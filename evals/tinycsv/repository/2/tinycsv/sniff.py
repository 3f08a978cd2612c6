"""Guessing a dialect."""

from tinycsv.dialect import Dialect

CANDIDATES = (",", ";", "\t", "|")


def guess_dialect(text):
    """The dialect whose separator occurs most often in the first line."""
    first = text.split("\n", 1)[0]
    best = max(CANDIDATES, key=first.count)
    return Dialect(separator=best)
