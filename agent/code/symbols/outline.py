"""Outline of a source file: definitions and syntax errors."""

from collections.abc import Sequence
from pathlib import PurePath

from agent.code.symbols.languages import CodeLanguage
from agent.code.symbols.parsing import Definition, Fault, language_of, parse
from agent.errors import ToolError
from agent.records import frozen
from agent.text.visible import escape_line

MAX_SYMBOLS = 400
_MAX_FAULTS = 20
_MAX_LINE_CHARS = 160
_MAX_DEPTH = 20


@frozen
class Symbol:
    """Definition: its lines (from 1, last line included), nesting depth and first line."""

    kind: str
    name: str
    first: int
    last: int
    depth: int
    text: str


@frozen
class SyntaxFault:
    """Position (from 1) where the text violates the grammar.

    `missing` is the token that the grammar expects there; empty for an unexpected token.
    """

    line: int
    column: int
    missing: str
    text: str

    @property
    def words(self) -> str:
        return f"missing {self.missing}" if self.missing else f"not expected: {self.text}"

    def __str__(self) -> str:
        return f"{self.line}:{self.column} {self.words}"


def symbols_of(text: str, path: PurePath) -> list[Symbol]:
    """Return the definitions of a file in order. Raises `ToolError` without a grammar."""
    data, language = _source(text, path)
    return symbols_from(data, parse(data, language, definitions=True).definitions)


def syntax_faults(text: str, path: PurePath) -> list[SyntaxFault]:
    """Return the first syntax errors of a text. Raises `ToolError`."""
    data, language = _source(text, path)
    return _faults_from(data, parse(data, language, max_faults=_MAX_FAULTS).faults)


def outline(text: str, path: PurePath) -> str:
    """Return definitions and syntax errors for the model, one per line, indented by depth.

    Raises `ToolError`.
    """
    data, language = _source(text, path)
    parsed = parse(data, language, definitions=True, max_faults=_MAX_FAULTS)
    symbols = symbols_from(data, parsed.definitions)
    lines = [_symbol_line(symbol) for symbol in symbols[:MAX_SYMBOLS]]
    if len(symbols) > MAX_SYMBOLS:
        lines.append(f"… ({len(symbols) - MAX_SYMBOLS:,} more)")
    if faults := _faults_from(data, parsed.faults):
        lines += ["Syntax errors:", *map(str, faults)]
    return "\n".join(lines)


def _source(text: str, path: PurePath) -> tuple[bytes, CodeLanguage]:
    language = language_of(path)
    if language is None:
        raise ToolError(f"There is no grammar for files like {path.name}.")
    return text.encode("utf-8", "replace"), language


def _symbol_line(symbol: Symbol) -> str:
    span = str(symbol.first) if symbol.first == symbol.last else f"{symbol.first}-{symbol.last}"
    return f"{'  ' * min(symbol.depth, _MAX_DEPTH)}{span} {symbol.text}"


def symbols_from(data: bytes, definitions: Sequence[Definition]) -> list[Symbol]:
    """Convert the parser's definitions to symbols."""
    lines = data.split(b"\n")
    symbols, ends = [], list[int]()
    for definition in definitions:
        while ends and ends[-1] <= definition.start_byte:
            ends.pop()
        line = _line(lines, max(definition.first_row, definition.name_row))
        symbols.append(
            Symbol(
                definition.kind,
                _plain(data[definition.name_start : definition.name_end]),
                definition.first_row + 1,
                _last_line(definition),
                len(ends),
                _plain(line.strip().rstrip(b"{").rstrip()),
            )
        )
        ends.append(definition.end_byte)
    return symbols


def _last_line(definition: Definition) -> int:
    ends_before = definition.end_column == 0 and definition.end_row > definition.first_row
    return definition.end_row if ends_before else definition.end_row + 1


def _faults_from(data: bytes, faults: Sequence[Fault]) -> list[SyntaxFault]:
    lines = data.split(b"\n")
    return [
        SyntaxFault(
            fault.row + 1,
            len(_line(lines, fault.row)[: fault.column].decode("utf-8", "replace")) + 1,
            fault.missing,
            _plain(_line(lines, fault.row)[fault.column :]),
        )
        for fault in faults
    ]


def _line(lines: Sequence[bytes], row: int) -> bytes:
    return lines[row] if row < len(lines) else b""


def _plain(raw: bytes) -> str:
    text = escape_line(raw.decode("utf-8", "replace"))
    return text if len(text) <= _MAX_LINE_CHARS else f"{text[: _MAX_LINE_CHARS - 1]}…"
