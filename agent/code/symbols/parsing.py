"""Texts made into trees, within bounds: a grammar is a program that a stranger's text feeds."""

import time
from functools import cache
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING

from agent.code.symbols.languages import BY_ENDING, CodeLanguage
from agent.errors import ToolError

if TYPE_CHECKING:
    from tree_sitter import Language, Query, Tree

# About 10 MB are parsed in a second, while which Python stands still.
LIMIT_BYTES = 500_000
LIMIT_S = 0.5
_CHUNK_BYTES = 65_536


def language_of(path: PurePath) -> CodeLanguage | None:
    """The language of a file by the end of its name; None for one without a grammar."""
    return BY_ENDING.get(path.suffix.lower())


def parse(data: bytes, language: CodeLanguage, limit_s: float = LIMIT_S) -> "Tree":
    """Raises `ToolError` for a text that is too large or takes too long, and without the
    grammar."""
    from tree_sitter import Parser

    if len(data) > LIMIT_BYTES:
        raise ToolError(f"It is larger than {LIMIT_BYTES // 1000} kB, so it was not parsed.")
    parser = Parser(grammar(language))
    deadline = time.monotonic() + limit_s

    def read(offset: int, _: object) -> bytes:
        return data[offset : offset + _CHUNK_BYTES]

    try:
        return parser.parse(read, progress_callback=lambda *_: time.monotonic() > deadline)
    except ValueError:
        raise ToolError(f"It could not be parsed within {limit_s:g} s.") from None


@cache
def grammar(language: CodeLanguage) -> "Language":
    """Raises `ToolError` where it is not installed."""
    from tree_sitter import Language

    try:
        module = import_module(language.package)
    except ImportError as exc:
        raise ToolError(
            f"{language.name} needs the extra code: pip install 'kore-assistant[code]'"
        ) from exc
    return Language(getattr(module, language.function)())


@cache
def query(language: CodeLanguage, source: str) -> "Query":
    """A compiled query. Raises `ToolError` without the grammar."""
    from tree_sitter import Query

    return Query(grammar(language), source)
