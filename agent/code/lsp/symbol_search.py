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
# Operations about a place that uses a name, not about the name itself.
ABOUT_USES = frozenset({"completion", "signature"})


@frozen
class SymbolSearch:
    """Candidates in the order to ask about, and the lines (from 0) that define the name.

    `definitions` is empty when the call gave a line, and when the server lists no symbols.
    `warning` is a sentence about the scopes of a qualified name that match no definition; they may
    name a module or an instance.
    """

    name: str
    positions: tuple[Position, ...]
    definitions: tuple[int, ...] = ()
    warning: str = ""

    def describe(self, position: Position) -> str:
        """Return a sentence that says which position an answer is about, with the warning."""
        place = f"{self.name} on line {position.line + 1}"
        if self.warning:
            return f"{self.warning.removesuffix('.')}; this is about {place}."
        return f"This is about {place}."


def find_symbol(
    lines: TextLines, args: Mapping[str, Any], operation: str, symbols: Any, encoding: Encoding
) -> SymbolSearch:
    """Return the candidates for the arguments `line`, `symbol` and `character` of a call.

    `symbols` is the server's answer to `textDocument/documentSymbol`. Without a line, definitions
    come first. Raises `ToolError` when the call gives no name, the text does not contain it, or a
    rename names scopes that match no definition.
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
    warning = ""
    if line is not None:
        candidates = _near(matches, int(line) - 1)
        if operation == "rename":
            # Another line may use the name for something else.
            candidates = [at for at in candidates if at.line == candidates[0].line]
    else:
        definitions, is_scoped = _definitions(symbols, lines, word, scopes, encoding)
        if not is_scoped and operation not in ABOUT_USES:
            warning = _scope_warning(".".join(scopes), name, is_listed=isinstance(symbols, list))
        candidates = list(dict.fromkeys([*definitions, *matches]))
    if not candidates:
        where = f"on line {line} or near it" if line is not None else "in the file"
        elsewhere = f"; it is on {list_lines(at.line for at in matches)}" if matches else ""
        raise ToolError(f"There is no {name[:_MAX_NAME_CHARS]!r} {where}{elsewhere}.")
    positions = tuple(candidates[:_MAX_POSITIONS])
    lines_of_definitions = tuple(sorted({position.line for position in definitions}))
    search = SymbolSearch(name, positions, lines_of_definitions, warning)
    if warning and operation == "rename":
        raise ToolError(
            f"{search.describe(positions[0])} Nothing was renamed: give the line of the name."
        )
    return search


def name_of(args: Mapping[str, Any], lines: TextLines) -> str:
    """Return the name that a call asks about, without its scopes, or an empty text."""
    *_, name = _parts(str(args.get("symbol") or ""))
    if name or args.get("line") is None or args.get("character") is None:
        return name
    return lines.word(Position(int(args["line"]) - 1, max(0, int(args["character"]) - 1)))


def _scope_warning(scope: str, name: str, *, is_listed: bool) -> str:
    """Return the sentence about scopes without a definition of the name in the listed symbols."""
    scope = escape_line(scope[:_MAX_NAME_CHARS])
    if is_listed:
        return f"No {scope} in this file defines {name}."
    return f"The language server did not list the definitions of {scope}."


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
) -> tuple[list[Position], bool]:
    """Return where a file's symbols define the name, and whether a definition is in all scopes.

    If any are in the scopes, only those are returned. Without scopes, the second value is True.
    Servers decorate names (`(*Basket).add`, `add(int)`), so the text at the symbol decides.
    """
    definitions = list(_defined(symbols, lines, word, encoding, ""))
    scoped = [
        position
        for position, scope in definitions
        if all(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", scope) for part in scopes)
    ]
    return scoped or [position for position, _ in definitions], bool(scoped) or not scopes


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
