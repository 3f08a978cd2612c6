"""`edit_file` tool: replace text in a file and change nothing else."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.files import file_io
from agent.security.files.file_io import FileMissing, exclusive_file
from agent.security.taint.file_marks import is_marked
from agent.security.taint.marked_write import write_marked
from agent.security.taint.taint import PRIVATE
from agent.settings import ToolSettings
from agent.text.notebook import Notebook, open_cells, with_text
from agent.text.text_document import (
    MAX_BYTES,
    Document,
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
from agent.tools.files.edit_matching import Edit, apply
from agent.tools.files.feature_list import check_edit_allowed
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
from agent.tools.traits import CLAUDE_PATH, PATH_ALIASES, ToolTraits, path_argument
from agent.types import Artifact, Effect, JsonSchema, Taint, ToolResult

_SINGLE = parameters(
    path="string", old_string="string?", new_string="string?", replace_all="boolean?"
)
# Vendors reject an array without `items` and an object without `properties`.
_SEVERAL = {
    "type": "array",
    "items": parameters(old_string="string", new_string="string"),
}
_SCHEMA = {**_SINGLE, "properties": {**_SINGLE["properties"], "edits": _SEVERAL}}


# Changed ranges up to this size are quoted with the lines around them.
_MAX_LINES = 34


_ON_DISK = UnsavedText()


class EditFile:
    """Tool that makes one or more replacements in a file, atomically.

    Encoding, BOM and line endings are preserved.
    """

    name: ClassVar[str] = "edit_file"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "edit",
        ("paths",),
        mark_for_translation("Editing {path}"),
        path_argument,
        aliases=("edit", "fileedit", "multiedit"),
        argument_aliases={
            **PATH_ALIASES,
            "old_text": "old_string",
            "new_text": "new_string",
            "old_str": "old_string",
            "new_str": "new_string",
        },
        claude_names=("Edit", "MultiEdit"),
        claude_arguments=CLAUDE_PATH,
        edits_by_patch=False,
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
        self.parameters: JsonSchema = with_insistence(_SCHEMA, self._drafts)

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/edit_file")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Return the edit as a diff. Raises ToolError if it does not match the file."""
        place = self._scope.locate(args["path"], call, "write")
        path, edits = place.path, _edits(args)
        with place.hiding_contents():
            try:
                unsaved = await read_unsaved(path, call)
                before, after, _ = await file_io.in_thread(
                    lambda: _apply_edits(path, edits, unsaved)
                )
            except FileMissing as exc:
                raise self._scope.missing(path, call) from exc
            await refuse_errors(self._drafts, [Draft(path, before.text, after.text)], args, call)
        return place.plan(changes=(path,), diff=diff(args["path"], before.text, after.text))

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        path = self._scope.find(args["path"], call, "write")
        edits = _edits(args)
        unsaved = await read_unsaved(path, call)

        def work() -> tuple[Document, Document, str, EarlierFile]:
            with exclusive_file(path):
                save_unsaved(path, unsaved, call)
                earlier = EarlierFile.at(path)
                before, after, tolerance = _apply_edits(path, edits)
                data = after.encode()
                with call.changes.file(path, data):
                    write_marked(path, data, call.workspace, call.taint)
            self._views.record_write(call.session, path)
            return before, after, tolerance, earlier

        before, after, _ = await file_io.in_thread(lambda: _apply_edits(path, edits, unsaved))
        draft = Draft(path, before.text, after.text)
        report = await self._drafts.check([draft], call, args.get(INSIST) or "")
        before, after, tolerance, earlier = await file_io.in_thread(work)
        remark = await show_change(earlier, call, self._views)
        await self._drafts.after_write([draft])
        difference = diff(args["path"], before.text, after.text)
        count = f"{len(edits)} edits" if len(edits) > 1 else "the edit"
        artifact = Artifact("diff", difference, str(path))
        new_text = after.renumbered().text if isinstance(after, Notebook) else after.text
        text = _describe(f"Made {count} in {path}", before.text, new_text, tolerance)
        result = ToolResult(text, for_user=f"Made {count} in {path}.", artifacts=(artifact,))
        return with_remarks(report.added_to(result), remark)


def _describe(what: str, before: str, after: str, tolerance: str) -> str:
    """Return a description of the edit and the new lines, for further edits by the model."""
    old_lines, new_lines = lines_of(before), lines_of(after)
    start = _equal_lines(old_lines, new_lines)
    end = len(new_lines) - _equal_lines(old_lines[start:][::-1], new_lines[start:][::-1])
    matched = f"; {tolerance}" if tolerance else ""
    if end - start > _MAX_LINES:
        return f"{what} (between lines {start + 1} and {max(end, start + 1)} now{matched})."
    listing = quote_lines(new_lines, [(start, end)])
    return f"{what} (line {start + 1} on{matched}). It reads now:\n{listing}".rstrip()


def _equal_lines(before: Sequence[str], after: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning."""
    pairs = enumerate(zip(before, after, strict=False))
    least = min(len(before), len(after))
    return next((n for n, (left, right) in pairs if left != right), least)


def _apply_edits(
    path: Path, edits: Sequence[Edit], unsaved: UnsavedText = _ON_DISK
) -> tuple[Document, Document, str]:
    """Return the file before and after the edits, and the differences that were tolerated."""
    before = open_cells(unsaved.over(decode(file_io.read(path, MAX_BYTES), path)), path)
    text, tolerance = before.text, ""
    for number, edit in enumerate(edits, 1):
        try:
            text, forgiven = apply(text, edit, str(path))
            tolerance = forgiven or tolerance
        except ToolError as exc:
            is_single = len(edits) == 1
            message = (
                str(exc) if is_single else f"Edit {number} of {len(edits)}: {exc} No edit was made."
            )
            failure = ToolError(message)
            # The text quotes the closest lines of the file.
            failure.untrusted = is_marked(path)
            raise failure from exc
    if text == before.text:
        raise ToolError(f"The edit does not change {path}; nothing was written.")
    check_edit_allowed(path, before.text, text)
    return before, with_text(before, text), tolerance


def _edits(args: Mapping[str, Any]) -> list[Edit]:
    several = args.get("edits") or []
    if "old_string" in args or "new_string" in args:
        several = [args, *several]
    if not several:
        raise ToolError("edit_file needs old_string and new_string, or a list of them in edits.")
    return [_edit(item, args) for item in several]


def _edit(item: Any, args: Mapping[str, Any]) -> Edit:
    if not isinstance(item, Mapping):
        raise ToolError("Each of edits must be an object with old_string and new_string.")
    for key in ("old_string", "new_string"):
        if not isinstance(item.get(key), str):
            raise ToolError(f"An edit needs the argument {key!r} as a string.")
    every = item.get("replace_all", args.get("replace_all", False))
    return Edit(item["old_string"], item["new_string"], every is True)
