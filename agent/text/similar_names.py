"""Spellings of names: the normalized spelling, and names similar to a misspelled one."""

from collections.abc import Iterable


def folded(name: str) -> str:
    """Return the normalized spelling of a tool's name."""
    return name.casefold().replace("_", "").replace("-", "")


def similar_names(
    name: str, names: Iterable[str], count: int = 1, cutoff: float = 0.6
) -> list[str]:
    """Return up to `count` similar names, the most similar first."""
    # Most runs have no misspelled names and need no search.
    from difflib import get_close_matches

    return get_close_matches(name, list(names), count, cutoff)
