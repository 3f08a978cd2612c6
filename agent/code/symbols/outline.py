"""What a file defines, and where it is not well formed."""

from collections.abc import Sequence
from pathlib import PurePath

from agent.code.symbols.languages import CodeLanguage
from agent.code.symbols.parsing import Definition, Fault, language_of, parse
from agent.errors import ToolError
from agent.records import frozen
from agent.text.visible import escape_line

MOST_SYMBOLS = 400
_MOST_ERRORS = 20
_LINE_CHARS = 160
_MOST_DEPTH = 20


@frozen
class Symbol:
    """A definition: its lines (from 1, the last one included), how many others it stands in, and
    its first line as it is written."""

    kind: str
    name: str
    first: int
    last: int
    depth: int
    text: str


@frozen
class SyntaxFault:
    """A place (from 1) where the text is not what the grammar expects. `missing` is what should
    stand there; empty where something else stands than what fits."""

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
    """The definitions of a file, in their order. Raises `ToolError` where there is no grammar."""
    data, language = _source(text, path)
    return symbols_from(data, parse(data, language, definitions=True).definitions)


def syntax_faults(text: str, path: PurePath) -> list[SyntaxFault]:
    """Where the text is not well formed, the first places. Raises `ToolError`."""
    data, language = _source(text, path)
    return _faults_from(data, parse(data, language, max_faults=_MOST_ERRORS).faults)


def outline(text: str, path: PurePath) -> str:
    """Both for a model: a line for each definition, indented as they stand in each other. Raises
    `ToolError`."""
    data, language = _source(text, path)
    parsed = parse(data, language, definitions=True, max_faults=_MOST_ERRORS)
    symbols = symbols_from(data, parsed.definitions)
    lines = [_symbol_line(symbol) for symbol in symbols[:MOST_SYMBOLS]]
    if len(symbols) > MOST_SYMBOLS:
        lines.append(f"… ({len(symbols) - MOST_SYMBOLS:,} more)")
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
    return f"{'  ' * min(symbol.depth, _MOST_DEPTH)}{span} {symbol.text}"


def symbols_from(data: bytes, definitions: Sequence[Definition]) -> list[Symbol]:
    """The symbols at places that the parser found."""
    lines = data.split(b"\n")
    symbols, ends = [], list[int]()
    for one in definitions:
        while ends and ends[-1] <= one.start_byte:
            ends.pop()
        line = _line(lines, max(one.first_row, one.name_row))
        symbols.append(
            Symbol(
                one.kind,
                _plain(data[one.name_start : one.name_end]),
                one.first_row + 1,
                _last_line(one),
                len(ends),
                _plain(line.strip().rstrip(b"{").rstrip()),
            )
        )
        ends.append(one.end_byte)
    return symbols


def _last_line(one: Definition) -> int:
    ends_before = one.end_column == 0 and one.end_row > one.first_row
    return one.end_row if ends_before else one.end_row + 1


def _faults_from(data: bytes, faults: Sequence[Fault]) -> list[SyntaxFault]:
    lines = data.split(b"\n")
    return [
        SyntaxFault(
            one.row + 1,
            len(_line(lines, one.row)[: one.column].decode("utf-8", "replace")) + 1,
            one.missing,
            _plain(_line(lines, one.row)[one.column :]),
        )
        for one in faults
    ]


def _line(lines: Sequence[bytes], row: int) -> bytes:
    return lines[row] if row < len(lines) else b""


def _plain(raw: bytes) -> str:
    text = escape_line(raw.decode("utf-8", "replace"))
    return text if len(text) <= _LINE_CHARS else f"{text[: _LINE_CHARS - 1]}…"
