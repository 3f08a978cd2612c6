"""`move_file` tool: move, rename and delete files and folders."""

import os
import stat
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.records import frozen
from agent.security.files import file_io
from agent.security.files.folder_tree import TreeWalk, remove_tree
from agent.security.files.safe_open import LISTED, open_folder_beneath
from agent.security.taint.file_marks import (
    mark_entry,
    mark_folders_around,
    mark_level,
    mark_tainted,
)
from agent.security.taint.taint import PRIVATE
from agent.settings import ToolSettings
from agent.text.notebook import open_cells
from agent.text.text_document import MAX_BYTES, decode, diff
from agent.tools.base import CallContext, EffectPlan
from agent.tools.file_views import FileViews
from agent.tools.files.draft_check import Draft, DraftCheck, NoDraftCheck
from agent.tools.files.feature_list import check_edit_allowed
from agent.tools.files.undo import change_check
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.schema import parameters
from agent.tools.traits import CLAUDE_PATH, PATH_ALIASES, ToolTraits, path_argument
from agent.types import Effect, JsonSchema, Taint, ToolResult

# Each of them is judged and shown in the question.
MAX_FILES = 500
MAX_DIFF_CHARS = 20_000


@frozen
class _Move:
    """Files to move, or to delete if there is no target.

    `entries` are the names below a folder, except folders; "" for a file itself.
    """

    source: Path
    target: Path | None
    is_folder: bool
    entries: tuple[str, ...]

    def paths(self, place: Path) -> tuple[Path, ...]:
        """Return the files, and the folder if there is one, as paths below `place`."""
        files = tuple(place / name if name else place for name in self.entries)
        return (place, *files) if self.is_folder else files

    def executables(self) -> tuple[Path, ...]:
        """Return the new paths of files that can be run as programs."""
        if self.target is None:
            return ()
        pairs = zip(self.paths(self.source), self.paths(self.target), strict=True)
        return tuple(target for source, target in pairs if _is_executable(source))

    def changes(self) -> list[Draft]:
        """Return the removed and the new files, without their texts, for observers of the disk."""
        new_paths = self.paths(self.target)[self.is_folder :] if self.target is not None else ()
        old_paths = self.paths(self.source)[self.is_folder :]
        return [
            *(Draft(path, "", None) for path in old_paths),
            *(Draft(path, None, "") for path in new_paths),
        ]


def _is_executable(path: Path) -> bool:
    mode = os.lstat(path).st_mode
    return stat.S_ISREG(mode) and bool(mode & 0o111)


class MoveFile:
    """Tool that moves or deletes files, but never replaces existing files. `undo` reverts it."""

    name: ClassVar[str] = "move_file"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "move",
        ("paths",),
        mark_for_translation("Moving {path}"),
        path_argument,
        aliases=("move", "mv", "rename", "renamefile", "delete", "deletefile", "removefile", "rm"),
        argument_aliases={
            **PATH_ALIASES,
            **dict.fromkeys(("source", "src", "from", "old_path", "source_path"), "path"),
            **dict.fromkeys(
                ("destination", "dest", "target", "new_path", "destination_path"), "to"
            ),
        },
        claude_arguments=CLAUDE_PATH,
    )
    effect: ClassVar[Effect] = "unsafe"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    parameters: ClassVar[JsonSchema] = parameters(path="string", to="string?")

    def __init__(
        self,
        settings: ToolSettings,
        views: FileViews | None = None,
        drafts: DraftCheck | None = None,
    ) -> None:
        self._scope = WorkspaceScope(settings)
        self._views = views or FileViews()
        self._drafts = drafts or NoDraftCheck()

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/move_file")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """List all removed and all new files. Their folder outside the workspace, if any, has to be
        allowed."""
        names = [self._scope.entry_name(name, call) for name in _paths_of(args)]
        located = self._scope.locate_all(names, call, "write")
        call = replace(call, folder_access=located.missing)

        def work() -> EffectPlan:
            move = self._move(args, call)
            creates = () if move.target is None else move.paths(move.target)
            difference = _difference(move, call.workspace)
            return EffectPlan(
                changes=move.paths(move.source),
                creates=creates,
                diff=difference,
                executables=move.executables(),
                deletion=self._scope.deletion([move.source], call) if not move.target else None,
            )

        with located.hiding_contents():
            return located.added_to(await file_io.in_thread(work))

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        def record() -> AbstractAsyncContextManager[None]:
            paths = [self._scope.find_entry(name, call) for name in _paths_of(args)]
            added = self._scope.recorded_outside(call, paths)
            return call.changes.command(self._scope.unrecorded(call), added)

        async with await file_io.in_thread(record):
            move, result = await file_io.in_thread(lambda: self._run(args, call))
        await self._drafts.after_write(move.changes())
        return result

    def _run(self, args: Mapping[str, Any], call: CallContext) -> tuple[_Move, ToolResult]:
        move = self._move(args, call)
        n = len(move.entries)
        files = f" ({n:,} {'file' if n == 1 else 'files'})" if move.is_folder else ""
        if move.target is None:
            _delete(move)
            return move, ToolResult(f"Deleted {move.source}{files}.")
        pairs = list(zip(move.paths(move.source), move.paths(move.target), strict=True))
        levels = [mark_level(source) for source, _ in pairs]
        views = [self._views.knowledge(call.session, source) for source, _ in pairs]
        is_tainted = [level != "none" or "untrusted" in call.taint for level in levels]
        # Mark first, so that no file has its new name without its mark: the attribute moves with
        # the file.
        for (source, target), level, is_marked in zip(pairs, levels, is_tainted, strict=True):
            if is_marked:
                mark_folders_around(target, call.workspace)
                mark_entry(source, unseen=level == "unseen")
        _rename(move.source, move.target)
        for (_, target), level, is_marked, view in zip(
            pairs, levels, is_tainted, views, strict=True
        ):
            if is_marked:
                # A link is marked on its folder, which has changed.
                mark_tainted(target, call.workspace, unseen=level == "unseen")
            if view == "current":
                self._views.record_write(call.session, target)
        return move, ToolResult(f"Moved {move.source} to {move.target}{files}.")

    def _move(self, args: Mapping[str, Any], call: CallContext) -> _Move:
        """Return the move for the current state of the disk. Raises ToolError."""
        root = call.workspace
        source = self._scope.find_entry(args["path"], call)
        if root.is_relative_to(source):
            raise ToolError(f"{source} contains the workspace; give a path inside it.")
        target = None
        if to := args.get("to"):
            target = self._scope.find_entry(to, call)
            if file_io.kind(target) == "folder" and not target.is_symlink():
                target = self._scope.find_entry(str(target / source.name), call)
            if os.path.lexists(target):
                raise ToolError(f"{target} already exists; nothing was replaced.")
            if target.is_relative_to(source):
                raise ToolError(f"{target} is inside {source}; choose another target.")
        if not os.path.lexists(source):
            raise self._scope.missing(source, call)
        with file_io.explain_errors(source):
            is_folder = stat.S_ISDIR(os.lstat(source).st_mode)
            move = _Move(source, target, is_folder, _entries(source) if is_folder else ("",))
            self._check(move, call)
        return move

    def _check(self, move: _Move, call: CallContext) -> None:
        """Raise ToolError for anything that the call may not change."""
        check = change_check(self._scope, call)
        for path in move.paths(move.source):
            check(path)
            check_edit_allowed(path, _text(path) or "", "")
        for path in move.paths(move.target) if move.target else ():
            check(path)


def _paths_of(args: Mapping[str, Any]) -> list[str]:
    """Return the paths in the arguments: the source, and the target if there is one."""
    return [str(args[name]) for name in ("path", "to") if args.get(name)]


def _entries(folder: Path) -> tuple[str, ...]:
    """Return the names of the files in a folder, without folders. Raises ToolError for too many."""
    names: list[str] = []
    with file_io.explain_errors(folder), open_folder_beneath(folder, flags=LISTED) as fd:
        walk = TreeWalk(fd)
        for entry in walk:
            if not entry.is_folder:
                names.append(entry.path)
            if len(names) > MAX_FILES:
                raise ToolError(
                    f"{folder} contains more than {MAX_FILES} files; move its folders one by one, "
                    "or use exec."
                )
    if walk.left_out:
        raise ToolError(f"{folder} cannot be read completely; use exec.")
    return tuple(names)


def _rename(source: Path, target: Path) -> None:
    with (
        file_io.explain_errors(source),
        open_folder_beneath(source.parent) as old_folder,
        open_folder_beneath(target.parent, create=True) as new_folder,
        file_io.exclusive_file(target),
    ):
        if os.path.lexists(target):
            raise ToolError(f"{target} already exists; nothing was replaced.")
        os.rename(source.name, target.name, src_dir_fd=old_folder, dst_dir_fd=new_folder)


def _delete(move: _Move) -> None:
    with (
        file_io.explain_errors(move.source),
        open_folder_beneath(move.source.parent) as folder,
    ):
        if not move.is_folder:
            os.unlink(move.source.name, dir_fd=folder)
        elif not remove_tree(move.source.name, folder):
            raise ToolError(f"{move.source} could not be deleted completely.")


def _difference(move: _Move, root: Path) -> str:
    """Return the text shown to a person: names for a move, as git writes them.

    A deletion includes the text of the files.
    """
    source = _display(move.source, root)
    if move.target is not None:
        return f"rename from {source}\nrename to {_display(move.target, root)}"
    parts, room = [], MAX_DIFF_CHARS
    for path in move.paths(move.source)[move.is_folder :]:
        name = _display(path, root)
        text = _text(path) if room > 0 else None
        parts.append(f"delete {name}" if not text else diff(name, text, ""))
        room -= len(parts[-1])
    return "\n".join(parts) or f"delete {source}/"


def _text(path: Path) -> str | None:
    """Return the text; None for a link, or for a binary, unreadable or too large file."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return None
        return open_cells(decode(file_io.read(path, MAX_BYTES), path), path).text
    except (OSError, ToolError):
        return None


def _display(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
