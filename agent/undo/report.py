"""Reports of undo operations as sentences and diffs."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agent.errors import ToolError
from agent.i18n import mark_for_translation, plural, t
from agent.text.notebook import open_cells
from agent.text.text_document import Document, TextFormat, decode, diff
from agent.text.visible import escape_line
from agent.undo.blob_store import BlobStore
from agent.undo.ledger import Direction, PathChange, ReversalResult
from agent.undo.records import ChangeStep, FileState, is_same_state
from agent.undo.restore import read, snapshot_path

_MAX_PATHS = 10
_DONE = {
    "restored": mark_for_translation("Restored {files}."),
    "removed": mark_for_translation("Removed {files}."),
}
_PLANNED = {
    "restored": mark_for_translation("Would restore {files}."),
    "removed": mark_for_translation("Would remove {files}."),
}
Pairs = Mapping[Path, tuple[FileState | None, FileState | None]]
_REASONS = {
    "ignored": mark_for_translation("build products that the project ignores"),
    "changed": mark_for_translation("someone else has changed it since"),
    "shared": mark_for_translation("another command ran at the same time and may have changed it"),
    "closed": mark_for_translation("access to it is blocked"),
    "lost": mark_for_translation("its earlier contents are no longer stored"),
    "go": mark_for_translation("it could not be restored"),
}


def net_changes(moves: Iterable[PathChange], direction: Direction) -> Pairs:
    """Return the current and final state of each path that would change."""
    pairs: dict[Path, tuple[FileState | None, FileState | None]] = {}
    for move in moves:
        if move.verdict != "go":
            continue
        change = move.change
        before, after = change.before, change.after
        now, target = (after, before) if direction == "undo" else (before, after)
        pairs[change.path] = (pairs[change.path][0] if change.path in pairs else now, target)
    return pairs


def changes_since(steps: Sequence[ChangeStep], blobs: BlobStore) -> Pairs:
    """Return the state of each path before the oldest step, and its current state."""
    states: dict[Path, FileState | None] = {}
    for step in steps:
        for change in step.changes[::-1]:
            if change.status in ("done", "kept"):
                states[change.path] = change.before
    pairs = {}
    for path, before in states.items():
        try:
            now = snapshot_path(path, blobs)[0]
        except ToolError:
            continue
        if not is_same_state(before, now, modes=True):
            pairs[path] = (before, now)
    return pairs


def differences(pairs: Pairs, blobs: BlobStore, root: Path, limit_chars: int) -> str:
    """Return unified diffs with 3 lines of context, cut at a line to the limit."""
    parts: list[str] = []
    room = limit_chars
    for number, (path, (before, after)) in enumerate(pairs.items()):
        text = _difference(path, display_path(path, root), (before, after), blobs)
        if not text:
            continue
        if len(text) > room:
            excerpt = text[:room].rpartition("\n")[0]
            remaining_lines = text[len(excerpt) :].count("\n") + 1
            more = len(pairs) - number - 1
            rest = plural(remaining_lines, "{n:,} more line", "{n:,} more lines")
            if more:
                files = plural(more, "{n:,} more file", "{n:,} more files")
                rest = t("{lines} and {files}", lines=rest, files=files)
            rest = f"… ({rest})"
            return "\n".join([*parts, excerpt, rest]).lstrip("\n")
        parts.append(text)
        room -= len(text) + 1
    return "\n".join(parts)


def _difference(
    path: Path, name: str, states: tuple[FileState | None, FileState | None], blobs: BlobStore
) -> str:
    before, after = states
    if "folder" in (before and before.kind, after and after.kind):
        return ""
    if is_same_state(before, after):
        modes = [f"{state.mode or 0:o}" for state in (before, after) if state]
        return f"--- {name}\n+++ {name}\n@@ mode {' -> '.join(modes)} @@"
    old, new = (_document(state, blobs, path) for state in (before, after))
    if old is None or new is None:
        return f"--- {name}\n+++ {name}\n@@ not shown: not a text, or no longer kept @@"
    cells = diff(name, open_cells(old, path).text, open_cells(new, path).text)
    # If no cell changed, the notebook differs in outputs or metadata.
    return cells or diff(name, old.text, new.text)


def _document(state: FileState | None, blobs: BlobStore, path: Path) -> Document | None:
    if state is None:
        return Document("", TextFormat())
    if state.kind == "link":
        return Document(f"link to {state.value}\n", TextFormat())
    try:
        data = blobs.get(state.value)
        if (
            data is None
            and (current := read(path)) is not None
            and blobs.name(current) == state.value
        ):
            data = current
        return decode(data, path) if data is not None else None
    except ToolError:
        return None


def describe(
    reversal: ReversalResult, direction: Direction, root: Path, *, would: bool = False
) -> str:
    """Describe the outcome, one line per kind; with `would`, describe the plan."""
    paths_by_outcome: dict[str, list[Path]] = {outcome: [] for outcome in _DONE}
    skipped: dict[str, list[Path]] = {}
    for move in reversal.moves:
        change = move.change
        target = change.before if direction == "undo" else change.after
        if "folder" in (change.before and change.before.kind, change.after and change.after.kind):
            continue
        if move.verdict == "already":
            continue
        if move.verdict == "go" and change.status in ("undone", "done"):
            paths_by_outcome["restored" if target else "removed"].append(change.path)
        else:
            skipped.setdefault(_REASONS[move.verdict], []).append(change.path)
    final = {path: outcome for outcome, paths in paths_by_outcome.items() for path in paths}
    lines = []
    for outcome in paths_by_outcome:
        if paths := [path for path in final if final[path] == outcome]:
            sentence = _PLANNED[outcome] if would else _DONE[outcome]
            lines.append(t(sentence, files=list_paths(paths, root)))
    skip_sentence = (
        mark_for_translation("Would skip {files}: {why}.")
        if would
        else mark_for_translation("Skipped {files}: {why}.")
    )
    for why, paths in skipped.items():
        lines.append(t(skip_sentence, files=list_paths(paths, root), why=t(why)))
    return "\n".join(lines)


def list_paths(paths: Iterable[Path], root: Path) -> str:
    names = [display_path(path, root) for path in dict.fromkeys(paths)]
    more = len(names) - _MAX_PATHS
    text = ", ".join(names[:_MAX_PATHS])
    return t("{files} and {n:,} more", files=text, n=more) if more > 0 else text


def display_path(path: Path, root: Path) -> str:
    """Return a printable path, relative to the workspace if it is inside."""
    inside = path.relative_to(root) if path.is_relative_to(root) else path
    return escape_line(str(inside))
