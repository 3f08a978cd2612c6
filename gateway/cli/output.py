"""Output on stdout: aligned tables for people, JSON for programs."""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

from agent.i18n import plural, t
from agent.text.display_width import display_width, padded, wrap_paragraphs, wrapped
from agent.text.visible import escape_invisible, escape_line

_COLUMN_GAP = "  "
_MIN_COLUMN_WIDTH = 12
_MAX_SHOWN_CHARS = 70
_Item = TypeVar("_Item")


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table with columns as wide as their widest cell; wide characters count as two.

    On a terminal that is too narrow, cells wrap or each row becomes a block. A pipe or a file
    always gets one line per row.
    """
    table = [[t(header) for header in headers], *([clean(cell) for cell in row] for row in rows)]
    columns = os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
    for line in layout_lines(table, columns):
        sys.stdout.write(line + "\n")


def tell(text: str) -> None:
    """Print a sentence on stderr, wrapped between words on a terminal."""
    columns = os.get_terminal_size(sys.stderr.fileno()).columns if sys.stderr.isatty() else 0
    print(wrap_paragraphs(text, columns) if columns else text, file=sys.stderr, flush=True)


def layout_lines(table: Sequence[Sequence[str]], columns: int) -> Iterator[str]:
    """Yield the lines of a table for a screen of `columns` columns; 0 means unlimited."""
    widths = [max(map(display_width, column)) for column in zip(*table, strict=True)]
    if columns and not _shrink(widths, columns) and len(widths) > 2:
        yield from _blocks(table, columns)
        return
    for row in table:
        cells = [wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            yield _COLUMN_GAP.join(map(padded, parts, widths)).rstrip()


def clean(text: str) -> str:
    """Return one line with hidden characters escaped, so that text cannot control a terminal."""
    return escape_line(" ".join(text.splitlines()))


def clean_lines(text: str) -> str:
    """Escape text like `clean`, but preserve line breaks and tabs."""
    return escape_invisible(text)


def moment(unix_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(unix_s))


def size(count_bytes: float) -> str:
    """Format a size: 12345678 as "12.3 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if count_bytes < 1000:
            return f"{count_bytes:.0f} {unit}" if unit == "B" else f"{count_bytes:.1f} {unit}"
        count_bytes /= 1000
    return f"{count_bytes:.1f} TB"


def skipped_files(count: int) -> str:
    """Return a sentence about files that a backup or an export does not contain."""
    return plural(
        count,
        "skipped: {n:,} file or folder that is nested too deeply, has an invalid name or "
        "cannot be read",
        "skipped: {n:,} files or folders that are nested too deeply, have invalid names "
        "or cannot be read",
    )


def _blocks(table: Sequence[Sequence[str]], columns: int) -> Iterator[str]:
    """Yield each row as lines of name and value, with an empty line between two rows."""
    names, *rows = table
    for n, row in enumerate(rows):
        if n:
            yield ""
        facts = zip(names, row, strict=True)
        yield from layout_lines([(name, cell) for name, cell in facts if cell], columns)


def _shrink(widths: list[int], columns: int) -> bool:
    """Shrink the widest columns; return whether the table fits now.

    The first column is not shrunk, because people copy from it.
    """
    while sum(widths) + len(_COLUMN_GAP) * (len(widths) - 1) > columns:
        widest = max(range(1, len(widths)), key=widths.__getitem__, default=0)
        if widest == 0 or widths[widest] <= _MIN_COLUMN_WIDTH:
            return False
        widths[widest] -= 1
    return True


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


def print_details(title: str, description: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print an item in detail."""
    print(clean(title.strip()))
    if description:
        print(f"  {clean_lines(description)}")
    for name, value in rows:
        print(f"  {name}: {clean(value)}")


def short(text: str) -> str:
    """Return a description that fits into a table."""
    return text if len(text) <= _MAX_SHOWN_CHARS else f"{text[: _MAX_SHOWN_CHARS - 1]}…"
