"""Parsing of definitions, names and syntax errors in a separate process."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from agent.code.symbols.languages import LANGUAGES_BY_SUFFIX, CodeLanguage
from agent.errors import ToolError
from agent.records import frozen
from agent.security.grammars.parser_process import ParserProcess

MAX_BYTES = 500_000
# Processor time for the tree, and for all parts of one text.
_MAX_TREE_CPU_S = 0.5
_MAX_CPU_S = 2.0

_PARSER = ParserProcess(
    {
        language.name: (language.package, language.function)
        for language in LANGUAGES_BY_SUFFIX.values()
    }
)


@frozen
class Definition:
    """Position of a definition and its name: byte offsets, and rows and columns from 0."""

    kind: str
    start_byte: int
    end_byte: int
    first_row: int
    end_row: int
    end_column: int
    name_start: int
    name_end: int
    name_row: int


@frozen
class Fault:
    """Position (from 0) that violates the grammar, and the missing token, if any."""

    row: int
    column: int
    missing: str


@frozen
class ParsedText:
    """Requested parts of a text; the others are empty.

    `names` are the used names with their counts.
    """

    definitions: Sequence[Definition]
    names: Sequence[tuple[str, int]]
    faults: Sequence[Fault]


def language_of(path: PurePath) -> CodeLanguage | None:
    """Return the language for a file's suffix, or None without a grammar."""
    return LANGUAGES_BY_SUFFIX.get(path.suffix.lower())


def parse(
    data: bytes,
    language: CodeLanguage,
    *,
    definitions: bool = False,
    max_names: int = 0,
    max_faults: int = 0,
) -> ParsedText:
    """Return the requested parts of a text. May block for seconds.

    Raises `ToolError` if the text is too large, takes too long or crashes the parser, or if the
    grammar is missing.
    """
    if len(data) > MAX_BYTES:
        raise ToolError(f"It is larger than {MAX_BYTES // 1000} kB, so it was not parsed.")
    parts = {
        "definitions": language.definitions if definitions else "",
        "names": language.references if max_names else "",
        "max_names": max_names,
        "max_faults": max_faults,
    }
    answer = _PARSER.parse(language.name, data, _MAX_CPU_S, limit_s=_MAX_TREE_CPU_S, **parts)
    try:
        return ParsedText(
            [_definition(*row) for row in answer.get("definitions", ())],
            [(str(name), int(count)) for name, count in answer.get("names", ())],
            [
                Fault(max(0, int(row)), max(0, int(column)), str(missing))
                for row, column, missing in answer.get("faults", ())
            ],
        )
    except (TypeError, ValueError) as exc:
        # The text may have taken over the process, so its answers are untrusted.
        raise ToolError("It could not be parsed: its parser failed.") from exc


def _definition(kind: Any, *places: Any) -> Definition:
    return Definition(str(kind), *(max(0, int(place)) for place in places))
