"""The positions of a name that a model asks about.

A name in a file may stand in comments and strings before the first line of code that uses it, so a
position is a candidate only: the server is asked about each in turn until it has an answer.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent.code.lsp.protocol.positions import Encoding, Position, TextLines
from agent.errors import ToolError
from agent.records import frozen
from agent.text.visible import escape_line

# Line numbers of models may be off by this many lines.
_MAX_LINE_DISTANCE = 3
# Candidates to ask about; a request takes milliseconds.
_MAX_POSITIONS = 50
# Line numbers in a sentence for the model.
_MAX_LINES = 20
_MAX_NAME_CHARS = 80
_MAX_DEPTH = 20


@frozen
class SymbolSearch:
    """Candidates in the order to ask about, and the lines (from 0) that define the name.

    `definitions` is empty when the call gave a line, and when the server lists no symbols.
    """

    name: str
    positions: tuple[Position, ...]
    definitions: tuple[int, ...] = ()


def find_symbol(
    lines: TextLines, args: Mapping[str, Any], operation: str, symbols: Any, encoding: Encoding
) -> SymbolSearch:
    """Return the candidates for the arguments `line`, `symbol` and `character` of a call.

    `symbols` is the server's answer to `textDocument/documentSymbol`. Without a line, definitions
    come first. Raises `ToolError` when the call gives no name, or the text does not contain it.
    """
    line, symbol = args.get("line"), args.get("symbol")
    if line is not None and args.get("character") is not None and not symbol:
        position = Position(int(line) - 1, max(0, int(args["character"]) - 1))
        return SymbolSearch("", (position,))
    *scopes, name = _parts(str(symbol or ""))
    if not name:
        line_text = lines.line(int(line) - 1).strip()[:200] if line is not None else ""
        on_line = f" Line {line} reads: {escape_line(line_text)}" if line_text else ""
        raise ToolError(f"{operation} needs the name as symbol, best with its line.{on_line}")
    word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
    matches = [
        Position(number, _character(match, operation))
        for number in range(len(lines))
        for match in word.finditer(lines.line(number))
    ]
    definitions: list[Position] = []
    if line is not None:
        candidates = _near(matches, int(line) - 1)
        if operation == "rename":
            # Another line may use the name for something else.
            candidates = [at for at in candidates if at.line == candidates[0].line]
    else:
        definitions = list(_definitions(symbols, lines, word, scopes, encoding))
        candidates = list(dict.fromkeys([*definitions, *matches]))
    if not candidates:
        where = f"on line {line} or near it" if line is not None else "in the file"
        elsewhere = f"; it is on {list_lines(at.line for at in matches)}" if matches else ""
        raise ToolError(f"There is no {name[:_MAX_NAME_CHARS]!r} {where}{elsewhere}.")
    positions = tuple(candidates[:_MAX_POSITIONS])
    lines_of_definitions = tuple(sorted({position.line for position in definitions}))
    return SymbolSearch(name, positions, lines_of_definitions)


def _character(match: re.Match[str], operation: str) -> int:
    """Return where an operation wants the position: after the name, in the brackets, or at it."""
    match operation:
        case "completion":
            return match.end()
        case "signature" if match.string[match.end() :].startswith("("):
            return match.end() + 1
    return match.start()


def list_lines(numbers: Iterable[int]) -> str:
    """Return "line 3" or "lines 3, 8 and 12" for lines that are counted from 0."""
    *others, last = [f"{number + 1}" for number in sorted(set(numbers))]
    if not others:
        return f"line {last}"
    if len(others) >= _MAX_LINES:
        return f"lines {', '.join(others[:_MAX_LINES])} and {len(others) - _MAX_LINES + 1} more"
    return f"lines {', '.join(others)} and {last}"


def _parts(symbol: str) -> list[str]:
    """Return the parts of a qualified name: `Basket.add(int)`, `shop::add`, `(*Basket).Add`."""
    qualified = re.sub(r"(?<=.)\([^()]*\)$", "", symbol.strip())
    parts = [part.strip("(*&)") for part in re.split(r"\.|::|#", qualified)]
    return [part for part in parts if part] or [""]


def _near(matches: list[Position], line: int) -> list[Position]:
    """Return the matches on a line and near it, the nearest first."""
    near = [at for at in matches if abs(at.line - line) <= _MAX_LINE_DISTANCE]
    return sorted(near, key=lambda at: (abs(at.line - line), at.line, at.character))


def _definitions(
    symbols: Any, lines: TextLines, word: re.Pattern[str], scopes: list[str], encoding: Encoding
) -> list[Position]:
    """Return where a file's symbols define the name; if any are in the given scopes, only those.

    Servers decorate names (`(*Basket).add`, `add(int)`), so the text at the symbol decides.
    """
    definitions = list(_defined(symbols, lines, word, encoding, ""))
    scoped = [
        position
        for position, scope in definitions
        if all(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", scope) for part in scopes)
    ]
    return scoped or [position for position, _ in definitions]


def _defined(
    symbols: Any,
    lines: TextLines,
    word: re.Pattern[str],
    encoding: Encoding,
    scope: str,
    depth: int = 0,
) -> Iterator[tuple[Position, str]]:
    """Yield the position of each definition, and the names of the symbols around it."""
    for symbol in symbols if isinstance(symbols, list) and depth < _MAX_DEPTH else ():
        if not isinstance(symbol, dict):
            continue
        names = f"{scope} {symbol.get('containerName') or ''} {symbol.get('name')}"
        if (position := _name_position(symbol, lines, word, encoding)) is not None:
            yield position, names
        yield from _defined(symbol.get("children"), lines, word, encoding, names, depth + 1)


def _name_position(
    symbol: Mapping[str, Any], lines: TextLines, word: re.Pattern[str], encoding: Encoding
) -> Position | None:
    """Return where a symbol has the name, or None for a symbol with another name."""
    location = symbol.get("location")
    span: Any = (
        location.get("range") if isinstance(location, dict) else symbol.get("selectionRange")
    )
    try:
        offset = lines.offset(span["start"], encoding)
    except (TypeError, KeyError, ValueError):
        return None
    position = lines.position(offset)
    text = lines.line(position.line)
    if isinstance(location, dict):
        # A flat symbol gives the range of its definition instead of that of its name.
        match = word.search(text, position.character) if word.search(str(symbol["name"])) else None
    else:
        match = word.match(text, position.character)
    return Position(position.line, match.start()) if match is not None else None
