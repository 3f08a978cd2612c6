"""Protocol methods of the operations, and formatting of their results."""

from collections.abc import Mapping
from typing import Any, Literal

from agent.code.lsp.places import Place, place_of
from agent.code.lsp.protocol.positions import path_of
from agent.records import frozen
from agent.text.visible import escape_invisible, escape_line

_MAX_CHARS = 4_000
_MAX_ITEMS = 50
_MAX_SYMBOLS = 300

# Symbol kinds of the protocol, numbered from 1.
_KINDS = (
    *("file", "module", "namespace", "package", "class", "method", "property", "field"),
    *("constructor", "enum", "interface", "function", "variable", "constant", "string", "number"),
    *("boolean", "array", "object", "key", "null", "enum member", "struct", "event", "operator"),
    "type parameter",
)


@frozen
class Method:
    """Protocol method of an operation, and the server capability that announces it."""

    name: str
    capability: str


METHODS: Mapping[str, Method] = {
    "definition": Method("textDocument/definition", "definitionProvider"),
    "declaration": Method("textDocument/declaration", "declarationProvider"),
    "references": Method("textDocument/references", "referencesProvider"),
    "implementation": Method("textDocument/implementation", "implementationProvider"),
    "type_definition": Method("textDocument/typeDefinition", "typeDefinitionProvider"),
    "hover": Method("textDocument/hover", "hoverProvider"),
    "document_symbols": Method("textDocument/documentSymbol", "documentSymbolProvider"),
    "workspace_symbols": Method("workspace/symbol", "workspaceSymbolProvider"),
    "completion": Method("textDocument/completion", "completionProvider"),
    "signature": Method("textDocument/signatureHelp", "signatureHelpProvider"),
    "incoming_calls": Method("textDocument/prepareCallHierarchy", "callHierarchyProvider"),
    "outgoing_calls": Method("textDocument/prepareCallHierarchy", "callHierarchyProvider"),
    "code_actions": Method("textDocument/codeAction", "codeActionProvider"),
    "apply_code_action": Method("textDocument/codeAction", "codeActionProvider"),
    "rename": Method("textDocument/rename", "renameProvider"),
    "format": Method("textDocument/formatting", "documentFormattingProvider"),
}


def kind_name(number: Any) -> str:
    """Return the name of a symbol kind."""
    is_known = isinstance(number, int) and 0 < number <= len(_KINDS)
    return _KINDS[number - 1] if is_known else "symbol"


def outline(result: Any) -> list[str]:
    """Return the symbols of a file with their lines, indented by depth."""
    lines: list[str] = []
    pending = _siblings(result, 0)
    while pending and len(lines) < _MAX_SYMBOLS:
        item, depth = pending.pop()
        first, last = _first_and_last_line(item)
        if first is None or last is None or "name" not in item:
            continue
        name = escape_line(str(item["name"]))[:_MAX_CHARS]
        span = str(first) if first == last else f"{first}-{last}"
        lines.append(f"{'  ' * min(depth, 20)}{span} {kind_name(item.get('kind'))} {name}")
        pending += _siblings(item.get("children"), depth + 1)
    if pending:
        lines.append("… (more symbols)")
    return lines


def _siblings(items: Any, depth: int) -> list[tuple[Mapping[str, Any], int]]:
    """Return the symbols of a list in reverse order of their lines; some servers sort by name."""
    symbols = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    symbols.sort(key=lambda item: _first_and_last_line(item)[0] or 0)
    return [(item, depth) for item in reversed(symbols)]


def _first_and_last_line(item: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return both line numbers from 1, or None for a malformed item."""
    location = item.get("location")
    span: Any = item.get("range") or (location.get("range") if isinstance(location, dict) else None)
    try:
        return int(span["start"]["line"]) + 1, int(span["end"]["line"]) + 1
    except (TypeError, KeyError, ValueError, OverflowError):
        return None, None


def symbol_places(result: Any) -> list[Place]:
    """Return the places of workspace symbols."""
    places = []
    for item in result if isinstance(result, list) else ():
        if not isinstance(item, dict):
            continue
        label = f"{kind_name(item.get('kind'))} {item.get('name')}"
        location = item.get("location")
        place = place_of(location, label)
        path = path_of(location.get("uri")) if isinstance(location, dict) else None
        if place is None and path is not None:
            # A server may omit the range.
            place = Place(path, 0, 0, label)
        if place is not None:
            places.append(place)
    return places


def call_places(result: Any, key: Literal["from", "to"]) -> list[Place]:
    """Return the functions at the other end of calls."""
    places = []
    for item in result if isinstance(result, list) else ():
        other = item.get(key) if isinstance(item, dict) else None
        if isinstance(other, dict):
            spot = {"uri": other.get("uri"), "range": other.get("selectionRange")}
            place = place_of(spot, f"{kind_name(other.get('kind'))} {other.get('name')}")
            places += [place] if place is not None else []
    return places


def hover_text(result: Any) -> str:
    """Return the text of a hover in any of the protocol's shapes."""
    contents = result.get("contents") if isinstance(result, dict) else None
    parts = contents if isinstance(contents, list) else [contents]
    words = [part.get("value") if isinstance(part, dict) else part for part in parts]
    return shorten("\n\n".join(str(word).strip() for word in words if word))


def completions(result: Any) -> list[str]:
    """Return completion items in the order of the server."""
    items = result.get("items") if isinstance(result, dict) else result
    candidates = (
        [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    )
    candidates.sort(key=lambda item: str(item.get("sortText") or item.get("label")))
    lines = []
    for item in candidates[:_MAX_ITEMS]:
        details = item.get("labelDetails")
        detail = item.get("detail") or (details.get("detail") if isinstance(details, dict) else "")
        lines.append(escape_line(f"{item.get('label')} {detail or ''}".strip())[:_MAX_CHARS])
    if len(candidates) > _MAX_ITEMS:
        lines.append(f"… ({len(candidates) - _MAX_ITEMS:,} more)")
    return lines


def signatures(result: Any) -> list[str]:
    """Return the signatures of a function."""
    items = result.get("signatures") if isinstance(result, dict) else None
    labels = [item.get("label") for item in items or () if isinstance(item, dict)]
    return [escape_line(str(label))[:_MAX_CHARS] for label in labels[:_MAX_ITEMS]]


def shorten(text: str) -> str:
    """Shorten and escape a text from a server."""
    # Cut before escaping, which is slow for long texts.
    readable = escape_invisible(text[: _MAX_CHARS + 1])
    return readable if len(readable) <= _MAX_CHARS else f"{readable[:_MAX_CHARS]}…"
