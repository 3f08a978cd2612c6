"""Definitions, names and syntax errors of a text, read by a grammar in a process of its own."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from agent.code.symbols.languages import BY_ENDING, CodeLanguage
from agent.errors import ToolError
from agent.records import frozen
from agent.security.grammars.parser_process import ParserProcess

LIMIT_BYTES = 500_000
# Processor time: for the tree, and for everything that one text is parsed for.
_TREE_LIMIT_S = 0.5
_LIMIT_S = 2.0

_PARSER = ParserProcess({one.name: (one.package, one.function) for one in BY_ENDING.values()})


@frozen
class Definition:
    """Places of a definition and of its name: bytes, and rows and columns from 0."""

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
    """A place, from 0, where the text is not what the grammar expects, and what is missing there;
    empty if something else is wrong."""

    row: int
    column: int
    missing: str


@frozen
class ParsedText:
    """The requested parts of a text; the others are empty. `names` are names that are used, and how
    often."""

    definitions: Sequence[Definition]
    names: Sequence[tuple[str, int]]
    faults: Sequence[Fault]


def language_of(path: PurePath) -> CodeLanguage | None:
    """The language of a file by the end of its name; None for one without a grammar."""
    return BY_ENDING.get(path.suffix.lower())


def parse(
    data: bytes,
    language: CodeLanguage,
    *,
    definitions: bool = False,
    max_names: int = 0,
    max_faults: int = 0,
) -> ParsedText:
    """Return the requested parts of a text. May block for seconds.

    Raises `ToolError` for a text that is too large, takes too long or ends its parser, and without
    the grammar.
    """
    if len(data) > LIMIT_BYTES:
        raise ToolError(f"It is larger than {LIMIT_BYTES // 1000} kB, so it was not parsed.")
    parts = {
        "definitions": language.definitions if definitions else "",
        "names": language.references if max_names else "",
        "max_names": max_names,
        "max_faults": max_faults,
    }
    answer = _PARSER.parse(language.name, data, _LIMIT_S, limit_s=_TREE_LIMIT_S, **parts)
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
        # A text may have taken over the process: its answers are strangers' words.
        raise ToolError("It could not be parsed: its parser failed.") from exc


def _definition(kind: Any, *places: Any) -> Definition:
    return Definition(str(kind), *(max(0, int(place)) for place in places))
