"""`apply_patch` tool: change several files with a single patch, for models trained on this format.

Other models are not offered the tool; those that know it call it anyway.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt, render_prompt
from agent.records import frozen
from agent.security.files import file_io
from agent.security.files.file_io import FileMissing, exclusive_file
from agent.security.files.safe_open import open_folder_beneath
from agent.security.taint.file_marks import (
    MarkLevel,
    is_marked,
    mark_folders_around,
    mark_level,
    mark_tainted,
)
from agent.security.taint.marked_write import write_marked
from agent.security.taint.taint import PRIVATE
from agent.settings import ToolSettings
from agent.text.notebook import open_cells, replace_cells, with_text
from agent.text.text_document import (
    MAX_BYTES,
    MAX_QUOTE_BYTES,
    Document,
    TextFormat,
    decode,
    diff,
    lines_of,
    quote_lines,
)
from agent.tools.base import CallContext, EffectPlan
from agent.tools.file_views import FileViews
from agent.tools.files.draft_check import (
    INSIST,
    Draft,
    DraftCheck,
    NoDraftCheck,
    refuse_errors,
    with_insistence,
)
from agent.tools.files.feature_list import check_edit_allowed
from agent.tools.files.patch_format import FilePatch, apply_hunks, parse_patch
from agent.tools.files.undo import change_check
from agent.tools.files.unsaved_text import (
    EarlierFile,
    UnsavedText,
    read_unsaved,
    save_unsaved,
    show_change,
    with_remarks,
)
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.schema import parameters
from agent.tools.traits import ToolTraits
from agent.types import Artifact, Effect, JsonSchema, Taint, ToolResult

# Minimum number of bytes quoted from each of many files.
_MIN_QUOTE_BYTES = 300
_FILE_LINES = re.compile(
    r"^\*\*\* (?:(?:Update|Add|Delete) File|Move to): *(\S.*?)\s*$", re.MULTILINE
)


@frozen
class _Change:
    """File before and after a change; None where it does not exist.

    `mode` and `level` are preserved for a moved file, `regions` are the changed lines. For a
    symbolic link that is moved or deleted, `link` is its target, and the documents are only
    descriptions.
    """

    path: Path
    before: Document | None
    after: Document | None
    mode: int | None = None
    level: MarkLevel = "none"
    regions: tuple[tuple[int, int], ...] = ()
    link: str | None = None

    @property
    def draft(self) -> Draft:
        before, after = (
            document.text if document else None for document in (self.before, self.after)
        )
        if self.link is not None:
            return Draft(self.path, before and "", after and "")
        return Draft(self.path, before, after)

    def __str__(self) -> str:
        if self.before is None:
            return f"added {self.path}"
        return f"{'updated' if self.after else 'deleted'} {self.path}"

    def diff(self, root: Path) -> str:
        path = self.path
        name = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
        texts = [document.text if document else "" for document in (self.before, self.after)]
        return diff(name, *texts) or f"delete {name}"


def patched_paths(arguments: Mapping[str, Any]) -> Sequence[str]:
    """Return the files that a patch names: changed, added, deleted and target files."""
    patch = arguments.get("input")
    return _FILE_LINES.findall(patch) if isinstance(patch, str) else ()


class ApplyPatch:
    """Tool that applies a patch; all files are checked before the first is written."""

    name: ClassVar[str] = "apply_patch"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "edit",
        ("paths",),
        mark_for_translation("Applying a patch"),
        patched_paths,
        argument_aliases=dict.fromkeys(("patch", "patch_text", "diff", "content"), "input"),
        claude_names=("Edit", "MultiEdit", "Write"),
        edits_by_patch=True,
    )
    effect: ClassVar[Effect] = "unsafe"
    brings: ClassVar[frozenset[Taint]] = PRIVATE

    def __init__(
        self,
        settings: ToolSettings,
        views: FileViews | None = None,
        drafts: DraftCheck | None = None,
    ) -> None:
        self._scope = WorkspaceScope(settings)
        self._views = views or FileViews()
        self._drafts = drafts or NoDraftCheck()
        self.parameters: JsonSchema = with_insistence(parameters(input="string"), self._drafts)

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/apply_patch")

    @cached_property
    def grammar(self) -> str | None:
        """Grammar of a patch; None if calls may have a second argument."""
        return None if self._drafts.refuses else load_prompt("tools/apply_patch_grammar")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Plan the changes. Their folder outside the workspace, if any, has to be allowed."""
        located = self._scope.locate_all(self._paths_of(args["input"], call), call, "write")
        with located.hiding_contents():
            plan = await self._plan(args, replace(call, folder_access=located.missing))
        return located.added_to(plan)

    async def _plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        unsaved = await self._unsaved_texts(args, call)
        changes = await file_io.in_thread(lambda: self._changes(args, call, unsaved))
        patches = parse_patch(args["input"])
        deleted = [self._place(patch, call) for patch in patches if patch.kind == "delete"]
        deletion = await file_io.in_thread(lambda: self._scope.deletion(deleted, call))
        await refuse_errors(self._drafts, [change.draft for change in changes], args, call)
        root = call.workspace
        return EffectPlan(
            changes=tuple(change.path for change in changes if change.before),
            creates=tuple(change.path for change in changes if not change.before),
            executables=tuple(
                change.path for change in changes if change.mode is not None and change.mode & 0o111
            ),
            diff="\n".join(change.diff(root) for change in changes),
            deletion=deletion,
        )

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        unsaved = await self._unsaved_texts(args, call)

        def save() -> None:
            for path, text in unsaved.items():
                with exclusive_file(path):
                    save_unsaved(path, text, call)

        earlier: dict[Path, EarlierFile] = {}

        def work() -> list[_Change]:
            changes = self._changes(args, call, {})
            for change in changes:
                if change.link is None and change.path not in earlier:
                    earlier[change.path] = EarlierFile.at(change.path)
                _write(change, call)
                if change.after:
                    self._views.record_write(call.session, change.path)
            return changes

        changes = await file_io.in_thread(lambda: self._changes(args, call, unsaved))
        drafts = [change.draft for change in changes]
        report = await self._drafts.check(drafts, call, args.get(INSIST) or "")
        await file_io.in_thread(save)
        outside = [change.path for change in changes]
        added = await file_io.in_thread(lambda: self._scope.recorded_outside(call, outside))
        async with call.changes.command(self._scope.unrecorded(call), added):
            changes = await file_io.in_thread(work)
        changed = [change for change in changes if change.after and change.link is None]
        remarks: list[str] = []
        refused: dict[Path, str] = {}
        for change in changed:
            try:
                remarks.append(await show_change(earlier[change.path], call, self._views))
            except ToolError as exc:
                refused[change.path] = str(exc)
        if refused:
            made = {change.path for change in changed} - refused.keys()
            # A deleted file may be the source of a file that was refused.
            deleted = [file for path, file in earlier.items() if path not in made | refused.keys()]
            await file_io.in_thread(lambda: [file.put_back(None, call) for file in deleted])
            names = ", ".join(map(str, sorted(made))) or "none"
            text = render_prompt(
                "editor_refused_patch", refused="\n".join(refused.values()), made=names
            )
            raise ToolError(text)
        await self._drafts.after_write(drafts)
        root = call.workspace
        summary = "Applied the patch:\n" + "\n".join(map(str, changes))
        result = ToolResult(
            summary + _quotes(changes),
            for_user=summary,
            artifacts=tuple(
                Artifact("diff", change.diff(root), str(change.path)) for change in changes
            ),
        )
        return with_remarks(report.added_to(result), *remarks)

    async def _unsaved_texts(
        self, args: Mapping[str, Any], call: CallContext
    ) -> Mapping[Path, UnsavedText]:
        """Return the unsaved texts of existing files in the person's editor."""
        patches = parse_patch(args["input"])
        paths = [self._place(patch, call) for patch in patches if patch.kind != "add"]
        return {path: await read_unsaved(path, call) for path in paths if not path.is_symlink()}

    def _paths_of(self, text: str, call: CallContext) -> list[str]:
        """Return the paths that have to be accessible for a patch."""
        names = []
        for patch in parse_patch(text):
            is_entry = patch.kind == "delete" or patch.target is not None
            names.append(self._scope.entry_name(patch.path, call) if is_entry else patch.path)
            names += [] if patch.target is None else [patch.target]
        return names

    def _place(self, patch: FilePatch, call: CallContext) -> Path:
        """Return the file of a patch; links are followed, except when they are deleted or moved."""
        if patch.kind != "delete" and patch.target is None:
            return self._scope.find(patch.path, call, "write")
        path = self._scope.find_entry(patch.path, call)
        change_check(self._scope, call)(path)
        return path

    def _changes(
        self, args: Mapping[str, Any], call: CallContext, unsaved: Mapping[Path, UnsavedText]
    ) -> list[_Change]:
        """Return the changes that the patch makes to the current files. Raises `ToolError`."""
        patches = parse_patch(args["input"])
        changes = [change for patch in patches for change in self._of_file(patch, call, unsaved)]
        paths = [change.path for change in changes]
        if twice := next((path for path in paths if paths.count(path) > 1), None):
            raise ToolError(f"The patch names {twice} twice; combine its hunks.")
        for change in changes:
            before, after = (
                document.text if document else "" for document in (change.before, change.after)
            )
            check_edit_allowed(change.path, before, after)
        return changes

    def _of_file(
        self, patch: FilePatch, call: CallContext, unsaved: Mapping[Path, UnsavedText]
    ) -> Sequence[_Change]:
        path = self._place(patch, call)
        if patch.kind == "add":
            self._require_new(path)
            added = replace_cells(None, path, patch.content)
            return [_Change(path, None, added or Document(patch.content, TextFormat()))]
        if path.is_symlink():
            return self._of_link(path, patch, call)
        try:
            before = decode(file_io.read(path, MAX_BYTES), path)
            before = open_cells(unsaved.get(path, UnsavedText()).over(before), path)
        except FileMissing as exc:
            raise self._scope.missing(path, call) from exc
        if patch.kind == "delete":
            return [_Change(path, before, None)]
        try:
            patched = apply_hunks(before.text, patch.hunks, str(path))
        except ToolError as exc:
            # The text quotes the closest lines of the file.
            exc.untrusted = is_marked(path)
            raise
        after = with_text(before, patched.text)
        if patch.target is None:
            return [_Change(path, before, after, regions=patched.regions)]
        target = self._target(patch.target, call)
        mode, level = os.lstat(path).st_mode, mark_level(path)
        moved = _Change(target, None, after, mode, level, patched.regions)
        return [moved, _Change(path, before, None)]

    def _of_link(self, path: Path, patch: FilePatch, call: CallContext) -> Sequence[_Change]:
        link = os.readlink(path)
        description = Document(f"link to {link}\n", TextFormat())
        deleted = _Change(path, description, None, link=link)
        if patch.target is None:
            return [deleted]
        if patch.hunks:
            raise ToolError(
                f"{path} is a symbolic link: move it without hunks, or update the file that it "
                f"leads to ({link})."
            )
        target = self._target(patch.target, call)
        return [_Change(target, None, description, level=mark_level(path), link=link), deleted]

    def _target(self, path: str, call: CallContext) -> Path:
        target = self._scope.find(path, call, "write")
        self._require_new(target)
        return target

    def _require_new(self, path: Path) -> None:
        if os.path.lexists(path):
            raise ToolError(f"{path} already exists; update it instead.")


def _write(change: _Change, call: CallContext) -> None:
    path = change.path
    with exclusive_file(path):
        if change.after is not None and change.link is not None:
            _make_link(path, change.link, change.level, call)
            return
        if change.after is not None:
            write_marked(
                path,
                change.after.encode(),
                call.workspace,
                call.taint,
                mode=change.mode,
                level=change.level,
            )
            return
        with file_io.explain_errors(path), open_folder_beneath(path.parent) as folder:
            os.unlink(path.name, dir_fd=folder)


def _make_link(path: Path, link: str, level: MarkLevel, call: CallContext) -> None:
    is_marked = level != "none" or "untrusted" in call.taint
    if is_marked:
        mark_folders_around(path, call.workspace)
    with file_io.explain_errors(path), open_folder_beneath(path.parent, create=True) as folder:
        os.symlink(link, path.name, dir_fd=folder)
    if is_marked:
        mark_tainted(path, call.workspace, unseen=level == "unseen")


def _quotes(changes: Sequence[_Change]) -> str:
    """Return the current lines that hunks changed, for further edits by the model."""
    quoted = [change for change in changes if change.after and change.regions]
    limit_bytes = max(_MIN_QUOTE_BYTES, MAX_QUOTE_BYTES // max(1, len(quoted)))
    parts = [
        f"{change.path} reads now:\n"
        + quote_lines(lines_of(change.after.text), change.regions, limit_bytes=limit_bytes)
        for change in quoted
        if change.after
    ]
    return "".join(f"\n{part}" for part in parts)
