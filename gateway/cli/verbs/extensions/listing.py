"""Output of skills, plugins and markets as lists or details, or as JSON."""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from gateway.cli.output import clean, clean_lines, print_json, print_table

_SHOWN_CHARS = 70

_Item = TypeVar("_Item")


def print_list(
    args: argparse.Namespace,
    items: Sequence[_Item],
    facts: Callable[[_Item], Mapping[str, object]],
    columns: Mapping[str, Callable[[_Item], str]],
    empty: str,
) -> None:
    """Print a table, or the sentence `empty` without items."""
    if args.json:
        print_json([facts(item) for item in items])
    elif not items:
        print(empty)
    else:
        rows = [[cell(item) for cell in columns.values()] for item in items]
        print_table(tuple(columns), rows)


def print_one(title: str, description: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print an item in detail."""
    print(clean(title.strip()))
    if description:
        print(f"  {clean_lines(description)}")
    for name, value in rows:
        print(f"  {name}: {clean(value)}")


def short(text: str) -> str:
    """Return a description that fits into a table."""
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"
