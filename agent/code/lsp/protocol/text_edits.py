"""Application of the edits that servers propose."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.code.lsp.protocol.positions import Encoding, TextLines, path_of
from agent.errors import ToolError


def apply_text_edits(text: str, edits: Any, encoding: Encoding) -> str:
    """Apply edits, whose positions refer to the original text.

    Raises `ToolError` for edits that overlap or are malformed.
    """
    lines = TextLines(text)
    spans: list[tuple[int, int, int, str]] = []
    try:
        for number, edit in enumerate(edits):
            place = edit["range"]
            start = lines.offset(place["start"], encoding)
            end = lines.offset(place["end"], encoding)
            spans.append((start, end, number, str(edit["newText"])))
    except (TypeError, KeyError, ValueError):
        raise ToolError("The language server proposed a malformed edit.") from None
    parts: list[str] = []
    done = 0
    # Edits at the same position keep their order.
    for start, end, _, new_text in sorted(spans, key=lambda span: span[:3]):
        if start < done or end < start:
            raise ToolError("The language server proposed edits that overlap.")
        parts += [text[done:start], new_text]
        done = end
    return "".join([*parts, text[done:]])


def files_of_edit(edit: Any) -> dict[Path, list[Any]]:
    """Return the edits of each file in a `WorkspaceEdit`.

    Raises `ToolError` if it also creates, renames or deletes files, for which Kore has other tools.
    """
    if not isinstance(edit, dict):
        raise ToolError("The language server proposed no edit.")
    edits_by_path: dict[Path, list[Any]] = {}

    def add(uri: Any, edits: Any) -> None:
        path = path_of(uri)
        if path is None or not isinstance(edits, list):
            raise ToolError("The language server proposed to change something that is not a file.")
        edits_by_path.setdefault(path, []).extend(edits)

    for change in edit.get("documentChanges") or ():
        if not isinstance(change, dict) or "kind" in change:
            raise ToolError(
                "The language server proposed to create, rename or delete files; do that with "
                "move_file or write_file."
            )
        document = change.get("textDocument")
        add(document.get("uri") if isinstance(document, dict) else None, change.get("edits"))
    if not edits_by_path:
        changes = edit.get("changes")
        for uri, edits in (changes if isinstance(changes, dict) else {}).items():
            add(uri, edits)
    return {path: edits for path, edits in edits_by_path.items() if edits}


def edited_texts(
    edit: Any, encoding: Encoding, read: Callable[[Path], str]
) -> Mapping[Path, tuple[str, str]]:
    """Return the old and new text of each file that a `WorkspaceEdit` changes.

    Raises `ToolError`.
    """
    texts = {}
    for path, edits in files_of_edit(edit).items():
        before = read(path)
        after = apply_text_edits(before, edits, encoding)
        if after != before:
            texts[path] = (before, after)
    return texts
