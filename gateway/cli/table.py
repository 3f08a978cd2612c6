"""Facts on stdout: an aligned table for people, JSON for programs."""

import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as their widest cell on screen; wide characters count as two."""
    table = [list(headers), *([clean(cell) for cell in row] for row in rows)]
    widths = [max(_width(row[n]) for row in table) for n in range(len(headers))]
    for row in table:
        cells = [cell + " " * (widths[n] - _width(cell)) for n, cell in enumerate(row)]
        sys.stdout.write("  ".join(cells).rstrip() + "\n")


def clean(text: str) -> str:
    """One line without control characters, so that stored text cannot steer a terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def clean_lines(text: str) -> str:
    """Like `clean`, keeping line breaks and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)


def moment(unix_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(unix_s))


def size(count_bytes: float) -> str:
    """12345678 as "12.3 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if count_bytes < 1000:
            return f"{count_bytes:.0f} {unit}" if unit == "B" else f"{count_bytes:.1f} {unit}"
        count_bytes /= 1000
    return f"{count_bytes:.1f} TB"


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    return max(wcswidth(text), 0)
