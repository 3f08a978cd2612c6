"""`apply_patch`: several files changed by one text, for models that were trained with it.

It is not among the tools that models are told of; those who know it call it anyway.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.prompts import load_prompt
from agent.records import frozen
from agent.security.files import file_io
from agent.security.files.file_io import FileMissing, exclusive_file
from agent.security.files.safe_open import open_folder_beneath
from agent.security.taint.file_marks import (
    MarkLevel,
    is_marked,
    mark_level,
)
from agent.security.taint.marked_write import write_marked
from agent.security.taint.taint import PRIVATE
from agent.settings import ToolSettings
from agent.text.text_document import LIMIT_BYTES, Document, TextFormat, decode, diff
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
from agent.tools.files.unsaved_text import (
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


@frozen
class _Change:
    """A file before and after; None where there is none. `mode` and `level` are what a moved one
    keeps."""

    path: Path
    before: Document | None
    after: Document | None
    mode: int | None = None
    level: MarkLevel = "none"

    @property
    def draft(self) -> Draft:
        before, after = (each.text if each else None for each in (self.before, self.after))
        return Draft(self.path, before, after)

    def diff(self, root: Path) -> str:
        path = self.path
        name = str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
        texts = [document.text if document else "" for document in (self.before, self.after)]
        return diff(name, *texts) or f"delete {name}"


class ApplyPatch:
    """All files are looked at before the first is written."""

    name: ClassVar[str] = "apply_patch"
    traits: ClassVar[ToolTraits] = ToolTraits("edit", ("paths",))
    effect: ClassVar[Effect] = "unsafe"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    is_listed: ClassVar[bool] = False

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

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        unsaved = await self._unsaved_texts(args, call)
        changes = await file_io.in_thread(lambda: self._changes(args, call, unsaved))
        await refuse_errors(self._drafts, [one.draft for one in changes], args, call)
        root = call.workspace
        return EffectPlan(
            changes=tuple(change.path for change in changes if change.before),
            creates=tuple(change.path for change in changes if not change.before),
            executables=tuple(
                change.path for change in changes if change.mode is not None and change.mode & 0o111
            ),
            diff="\n".join(change.diff(root) for change in changes),
        )

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        unsaved = await self._unsaved_texts(args, call)

        def save() -> None:
            for path, text in unsaved.items():
                with exclusive_file(path):
                    save_unsaved(path, text, call)

        def work() -> list[_Change]:
            changes = self._changes(args, call, {})
            for change in changes:
                _write(change, call)
                if change.after:
                    self._views.record_write(call.session, change.path)
            return changes

        changes = await file_io.in_thread(lambda: self._changes(args, call, unsaved))
        drafts = [change.draft for change in changes]
        report = await self._drafts.check(drafts, call, args.get(INSIST) or "")
        await file_io.in_thread(save)
        async with call.changes.command(self._scope.unrecorded(call)):
            changes = await file_io.in_thread(work)
        changed_paths = [change.path for change in changes if change.after]
        remarks = [await show_change(path, call, self._views) for path in changed_paths]
        await self._drafts.after_write(drafts)
        root = call.workspace
        lines = [f"{_verb(change)} {change.path}" for change in changes]
        result = ToolResult(
            "Applied the patch:\n" + "\n".join(lines),
            artifacts=tuple(
                Artifact("diff", change.diff(root), str(change.path)) for change in changes
            ),
        )
        return with_remarks(report.added_to(result), *remarks)

    async def _unsaved_texts(
        self, args: Mapping[str, Any], call: CallContext
    ) -> Mapping[Path, UnsavedText]:
        """What the person's editor shows of the files that there are."""
        patches = parse_patch(args["input"])
        paths = [self._scope.find(one.path, call) for one in patches if one.kind != "add"]
        return {path: await read_unsaved(path, call) for path in paths}

    def _changes(
        self, args: Mapping[str, Any], call: CallContext, unsaved: Mapping[Path, UnsavedText]
    ) -> list[_Change]:
        """What the patch does to the files as they are now. Raises ToolError."""
        patches = parse_patch(args["input"])
        changes = [change for patch in patches for change in self._of_file(patch, call, unsaved)]
        paths = [change.path for change in changes]
        if twice := next((path for path in paths if paths.count(path) > 1), None):
            raise ToolError(f"The patch names {twice} twice; combine its hunks.")
        for change in changes:
            before, after = (each.text if each else "" for each in (change.before, change.after))
            check_edit_allowed(change.path, before, after)
        return changes

    def _of_file(
        self, patch: FilePatch, call: CallContext, unsaved: Mapping[Path, UnsavedText]
    ) -> Sequence[_Change]:
        path = self._scope.find(patch.path, call)
        if patch.kind == "add":
            self._require_new(path)
            return [_Change(path, None, Document(patch.content, TextFormat()))]
        try:
            before = decode(file_io.read(path, LIMIT_BYTES), path)
            before = unsaved.get(path, UnsavedText()).over(before)
        except FileMissing as exc:
            raise self._scope.missing(path, call) from exc
        if patch.kind == "delete":
            return [_Change(path, before, None)]
        try:
            after = replace(before, text=apply_hunks(before.text, patch.hunks, str(path)))
        except ToolError as exc:
            # It shows the closest lines of the file.
            exc.untrusted = is_marked(path)
            raise
        if patch.target is None:
            return [_Change(path, before, after)]
        target = self._scope.find(patch.target, call)
        self._require_new(target)
        moved = _Change(target, None, after, os.lstat(path).st_mode, mark_level(path))
        return [moved, _Change(path, before, None)]

    def _require_new(self, path: Path) -> None:
        if os.path.lexists(path):
            raise ToolError(f"{path} already exists; update it instead.")


def _write(change: _Change, call: CallContext) -> None:
    path = change.path
    with exclusive_file(path):
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


def _verb(change: _Change) -> str:
    if change.before is None:
        return "added"
    return "updated" if change.after else "deleted"
