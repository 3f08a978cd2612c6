"""What a file defines, and where it is not well formed."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from agent.code.symbols.languages import CodeLanguage
from agent.code.symbols.parsing import language_of, parse, query
from agent.errors import ToolError
from agent.records import frozen
from agent.text.visible import escape_line

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

MOST_SYMBOLS = 400
_MOST_ERRORS = 10_000
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
    data, tree, language = _tree(text, path)
    return symbols_in(data, tree, language)


def syntax_faults(text: str, path: PurePath) -> list[SyntaxFault]:
    """Where the text is not well formed, the first places. Raises `ToolError`."""
    data, tree, _ = _tree(text, path)
    return _faults(data, tree)


def outline(text: str, path: PurePath) -> str:
    """Both for a model: a line for each definition, indented as they stand in each other. Raises
    `ToolError`."""
    data, tree, language = _tree(text, path)
    symbols = symbols_in(data, tree, language)
    lines = [_symbol_line(symbol) for symbol in symbols[:MOST_SYMBOLS]]
    if len(symbols) > MOST_SYMBOLS:
        lines.append(f"… ({len(symbols) - MOST_SYMBOLS:,} more)")
    if faults := _faults(data, tree):
        lines += ["Syntax errors:", *map(str, faults)]
    return "\n".join(lines)


def _tree(text: str, path: PurePath) -> tuple[bytes, "Tree", CodeLanguage]:
    language = language_of(path)
    if language is None:
        raise ToolError(f"There is no grammar for files like {path.name}.")
    data = text.encode("utf-8", "replace")
    return data, parse(data, language), language


def _symbol_line(symbol: Symbol) -> str:
    span = str(symbol.first) if symbol.first == symbol.last else f"{symbol.first}-{symbol.last}"
    return f"{'  ' * min(symbol.depth, _MOST_DEPTH)}{span} {symbol.text}"


def symbols_in(data: bytes, tree: "Tree", language: CodeLanguage) -> list[Symbol]:
    """The definitions in a tree, in their order. Raises `ToolError` for a text that is nothing but
    errors: a query takes minutes over so many, and cannot be stopped."""
    from tree_sitter import QueryCursor

    if not language.definitions:
        return []
    if tree.root_node.type == "ERROR" and tree.root_node.child_count > _MOST_ERRORS:
        raise ToolError("It has too many syntax errors to be looked through.")
    cursor = QueryCursor(query(language, language.definitions))
    spans: dict[tuple[int, int], tuple[str, Node, Node]] = {}
    for _, captures in cursor.matches(tree.root_node):
        (name,) = captures["name"][:1]
        kind, node = next((kind, nodes[0]) for kind, nodes in captures.items() if kind != "name")
        spans.setdefault((node.start_byte, -node.end_byte), (kind, node, name))
    lines = data.split(b"\n")
    symbols, ends = [], list[int]()
    for _, (kind, node, name) in sorted(spans.items(), key=lambda item: item[0]):
        while ends and ends[-1] <= node.start_byte:
            ends.pop()
        first = node.start_point[0]
        shown_row = max(first, name.start_point[0])
        symbols.append(
            Symbol(
                kind,
                _plain(name.text or b""),
                first + 1,
                _last_line(node),
                len(ends),
                _plain(lines[shown_row].strip().rstrip(b"{").rstrip()),
            )
        )
        ends.append(node.end_byte)
    return symbols


def _last_line(node: "Node") -> int:
    row, column = node.end_point
    return row if column == 0 and row > node.start_point[0] else row + 1


def _faults(data: bytes, tree: "Tree") -> list[SyntaxFault]:
    if not tree.root_node.has_error:
        return []
    lines = data.split(b"\n")
    faults = []
    for node in _faulty_nodes(tree):
        row, column = node.start_point
        line = lines[row] if row < len(lines) else b""
        characters = len(line[:column].decode("utf-8", "replace"))
        missing = node.type if node.is_missing else ""
        faults.append(SyntaxFault(row + 1, characters + 1, missing, _plain(line[column:])))
        if len(faults) == _MOST_ERRORS:
            break
    return faults


def _faulty_nodes(tree: "Tree") -> Iterator["Node"]:
    """The outermost ones, in their order: what stands in one is its consequence. Walks without
    recursion: a hostile text nests deeper than Python does."""
    cursor = tree.walk()
    while True:
        node = cursor.node
        assert node is not None, "a cursor stands on a node"
        is_fault = node.is_error or node.is_missing
        if is_fault:
            yield node
        if not is_fault and node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def _plain(raw: bytes) -> str:
    text = escape_line(raw.decode("utf-8", "replace"))
    return text if len(text) <= _LINE_CHARS else f"{text[: _LINE_CHARS - 1]}…"
