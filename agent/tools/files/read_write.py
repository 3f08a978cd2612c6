"""Tools `read_file`, `write_file` and `append_file`."""

import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt, render_prompt
from agent.security.files import file_io
from agent.security.files.file_io import FileMissing, FileTooLarge, exclusive_file
from agent.security.taint.file_marks import is_marked
from agent.security.taint.marked_write import append_marked, write_marked
from agent.security.taint.taint import NOTHING, PRIVATE, UNTRUSTED
from agent.settings import ToolSettings
from agent.text.media_types import MAX_PICTURE_BYTES, sniff_image_type
from agent.text.notebook import Notebook, open_cells, replace_cells
from agent.text.text_document import (
    MAX_BYTES,
    Document,
    TextFormat,
    decode,
    diff,
    legacy_encoding,
    line_ending,
    lines_of,
    refuse_binary,
)
from agent.tools.base import CallContext, EffectPlan
from agent.tools.file_views import FileViews, stamp
from agent.tools.files.draft_check import (
    INSIST,
    Draft,
    DraftCheck,
    NoDraftCheck,
    refuse_errors,
    with_insistence,
)
from agent.tools.files.feature_list import check_edit_allowed
from agent.tools.files.nested_instructions import nested_instructions
from agent.tools.files.notebook_outputs import ShownOutputs, outputs_within
from agent.tools.files.unsaved_text import (
    EarlierFile,
    UnsavedText,
    read_unsaved,
    save_unsaved,
    show_change,
    with_remarks,
)
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.pictures import too_large
from agent.tools.schema import parameters
from agent.tools.traits import CLAUDE_PATH, PATH_ALIASES, TEXT_ALIASES, ToolTraits, path_argument
from agent.tools.web.pdf import pdf_text
from agent.types import Artifact, Effect, Image, JsonSchema, Taint, ToolResult

LINE_LIMIT = 2_000
_CONTENT = parameters(path="string", content="string")


class ReadFile:
    """Tool that reads a text file, the text of a PDF or the cells of a notebook as numbered lines.

    The lines are `line_start` to `line_end`.
    """

    name: ClassVar[str] = "read_file"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "read",
        ("paths",),
        mark_for_translation("Reading {path}"),
        path_argument,
        aliases=("read", "fileread", "view", "cat"),
        argument_aliases={**PATH_ALIASES, "start_line": "line_start", "end_line": "line_end"},
        claude_names=("Read",),
        claude_arguments=CLAUDE_PATH,
        shows_file=True,
    )
    effect: ClassVar[Effect] = "read"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    parameters: ClassVar[JsonSchema] = parameters(
        path="string", line_start="integer?", line_end="integer?"
    )

    def __init__(self, settings: ToolSettings, views: FileViews | None = None) -> None:
        self._scope = WorkspaceScope(settings)
        self.views = views or FileViews()
        self.output_limit_bytes = max(settings.read_limit_bytes, settings.output_limit_bytes)

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/read_file")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Declare the file."""
        place = self._scope.locate(args["path"], call, "read")
        return place.plan(reads=(place.path,))

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        path = self._scope.find(args["path"], call, "read")
        rights = self._scope.rights(path, call)
        # Before the file is read, so that a change in between is noticed later.
        view_stamp = stamp(path)
        try:
            data = await file_io.in_thread(lambda: file_io.read(path, MAX_BYTES, rights))
        except FileMissing as exc:
            raise self._scope.missing(path, call) from exc
        except FileTooLarge as exc:
            command = f"sed -n 1,200p {shlex.quote(str(path))}"
            raise ToolError(f"{exc} Read parts of it with exec: {command}") from exc
        if media_type := sniff_image_type(data[:16]):
            self.views.record_view(call.session, path, view_stamp)
            return _picture(data, media_type, path)
        is_pdf = data.startswith(b"%PDF-")
        text, torn = (await pdf_text(data), "") if is_pdf else _text(data, path)
        unsaved = UnsavedText() if is_pdf or torn else await read_unsaved(path, call)
        self.views.record_view(call.session, path, view_stamp)
        if unsaved.text is not None:
            self.views.record_unsaved(call.session, path, unsaved.text)
            text = unsaved.text
        document = open_cells(Document(text, TextFormat()), path)
        text = document.text
        about = ""
        if isinstance(document, Notebook):
            count = len(document.cells)
            cells = "1 cell" if count == 1 else f"{count} cells"
            about = render_prompt("notebook", cells=cells)
        lines = lines_of(text)
        if not lines:
            return with_remarks(ToolResult(f"{path} is empty. {about}".rstrip()), unsaved.remark)
        start = int(args.get("line_start", 1))
        first = min(max(1, len(lines) + 1 + start if start < 0 else start), len(lines))
        last = min(max(first, int(args.get("line_end", len(lines)))), len(lines))
        rules = await file_io.in_thread(
            lambda: nested_instructions(path, call, self.views, self._scope)
        )
        room = self.output_limit_bytes - len(f"{rules}{about}".encode("utf-8", "replace"))
        if not is_pdf:
            torn += _line_ends(text, with_last=last == len(lines))
        outputs = ShownOutputs()
        if isinstance(document, Notebook):
            outputs = outputs_within(document, path, first, last, room // 2)
            torn += f"\n{about}"
        body, end = self._number_lines(lines, first, last, room - outputs.size_bytes)
        if isinstance(document, Notebook) and end < last:
            outputs = outputs_within(document, path, first, end, room // 2)
        body += outputs.text + torn + rules
        summary = f"{path}: lines {first} to {last} of {len(lines)}"
        taint = UNTRUSTED if is_marked(path) else NOTHING
        result = ToolResult(body, for_user=summary, taint=taint, images=tuple(outputs.images))
        return with_remarks(result, unsaved.remark)

    def _number_lines(self, lines: list[str], first: int, last: int, room: int) -> tuple[str, int]:
        """Return the lines that fit, and the number of the last line."""
        width = len(str(last))
        numbered: list[str] = []
        for number in range(first, min(last, first + LINE_LIMIT - 1) + 1):
            line = f"{number:>{width}}\t{lines[number - 1]}"
            size = len(line.encode("utf-8", "replace")) + 1
            if size > room and numbered:
                break
            if size > room:
                line = line.encode()[:room].decode("utf-8", "ignore") + "… (line cut)"
            numbered.append(line)
            room -= size
        end = first + len(numbered) - 1
        if end < last:
            numbered.append(
                f"… (lines {first} to {end} of {len(lines)}; read on with line_start={end + 1})"
            )
        return "\n".join(numbered), end


class WriteFile:
    """Tool that writes exactly `content` to a file; a notebook also accepts cells as they are read.

    An existing file keeps its mode, its encoding and, unless `content` contains CRLF, its CRLF line
    endings.
    """

    name: ClassVar[str] = "write_file"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "edit",
        ("paths",),
        mark_for_translation("Editing {path}"),
        path_argument,
        aliases=("write", "filewrite", "createfile"),
        argument_aliases={**PATH_ALIASES, **TEXT_ALIASES},
        claude_names=("Write",),
        claude_arguments=CLAUDE_PATH,
    )
    effect: ClassVar[Effect] = "idempotent"
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
        self.parameters: JsonSchema = with_insistence(_CONTENT, self._drafts)

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/write_file")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Plan to create or change the file, with a diff for approval."""
        place = self._scope.locate(args["path"], call, "write")
        path = place.path
        old = await file_io.in_thread(lambda: _existing(path))
        unsaved = await read_unsaved(path, call)
        # The person has seen the diff, so do not reject an approved call when the turn resumes.
        if old is not None and (old.text or unsaved.text) and not call.resumed:
            self._refuse_unread(path, call.session, unsaved)
        old, new = _rewritten(path, unsaved.over(old) if old else None, args["content"])
        check_edit_allowed(path, old.text if old else "", new.text)
        draft = Draft(path, old.text if old else None, new.text)
        with place.hiding_contents():
            await refuse_errors(self._drafts, [draft], args, call)
        difference = diff(args["path"], old.text if old else "", new.text)
        if old is None:
            return place.plan(creates=(path,), diff=difference)
        return place.plan(changes=(path,), diff=difference)

    def _refuse_unread(self, path: Path, session: str, unsaved: UnsavedText) -> None:
        knowledge = self._views.knowledge(session, path)
        text = unsaved.text
        if text is not None and knowledge == "current":
            is_seen = self._views.has_seen_unsaved(session, path, text)
            knowledge = "current" if is_seen else "old"
        if knowledge == "none":
            raise ToolError(render_prompt("unread", path=str(path)))
        if knowledge == "old":
            raise ToolError(render_prompt("unread_change", path=str(path)))

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        path = self._scope.find(args["path"], call, "write")
        unsaved = await read_unsaved(path, call)

        def work() -> tuple[str, int, bool, EarlierFile]:
            with exclusive_file(path):
                save_unsaved(path, unsaved, call)
                earlier = EarlierFile.at(path)
                old, new = _rewritten(path, _existing(path), args["content"])
                check_edit_allowed(path, old.text if old else "", new.text)
                data = _encode(new)
                with call.changes.file(path, data):
                    write_marked(path, data, call.workspace, call.taint)
            self._views.record_write(call.session, path)
            difference = diff(args["path"], old.text if old else "", new.text)
            return difference, len(data), new.text != args["content"], earlier

        old = await file_io.in_thread(lambda: _existing(path))
        old, new = _rewritten(path, unsaved.over(old) if old else None, args["content"])
        draft = Draft(path, old.text if old else None, new.text)
        report = await self._drafts.check([draft], call, args.get(INSIST) or "")
        difference, size, keeps_ends, earlier = await file_io.in_thread(work)
        remark = await show_change(earlier, call, self._views)
        await self._drafts.after_write([draft])
        ends = " Its lines end in CRLF, as before." if keeps_ends else ""
        text, artifacts = f"Wrote {size:,} bytes to {path}.{ends}", _artifacts(difference, path)
        return with_remarks(report.added_to(ToolResult(text, artifacts=artifacts)), remark)


class AppendFile:
    """Tool that appends `content` on a new line, with the file's encoding and line endings."""

    name: ClassVar[str] = "append_file"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "edit",
        ("paths",),
        mark_for_translation("Editing {path}"),
        path_argument,
        aliases=("append",),
        argument_aliases={**PATH_ALIASES, **TEXT_ALIASES},
        claude_names=("Write",),
        claude_arguments=CLAUDE_PATH,
        only_adds=True,
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
        self.parameters: JsonSchema = with_insistence(_CONTENT, self._drafts)

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/append_file")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Plan to append the text, with a diff for approval."""
        place = self._scope.locate(args["path"], call, "write")
        path = place.path
        with place.hiding_contents():
            old = await file_io.in_thread(lambda: _appendable(path))
            old = (await read_unsaved(path, call)).over(old) if old else None
            draft = _longer(path, old, args["content"])
            check_edit_allowed(path, draft.before or "", draft.after or "")
            await refuse_errors(self._drafts, [draft], args, call)
        difference = diff(args["path"], draft.before or "", draft.after or "") if old else None
        if old is None:
            return place.plan(creates=(path,), diff=diff(args["path"], "", args["content"]))
        return place.plan(changes=(path,), diff=difference)

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        path = self._scope.find(args["path"], call, "write")
        unsaved = await read_unsaved(path, call)

        def work() -> tuple[str, int, bool, EarlierFile]:
            with exclusive_file(path):
                save_unsaved(path, unsaved, call)
                earlier = EarlierFile.at(path)
                old = _appendable(path)
                before = old.text if old else ""
                content = _appended(before, args["content"])
                check_edit_allowed(path, before, before + content)
                data = (old.form if old else TextFormat()).encode(content)
                new_data = old.encode() + data if old else data
                with call.changes.file(path, new_data):
                    append_marked(path, data, call.workspace, call.taint)
            self._views.record_write(call.session, path)
            difference = diff(args["path"], before, before + content)
            return difference, len(data), _breaks_line(before, args["content"]), earlier

        old = await file_io.in_thread(lambda: _appendable(path))
        draft = _longer(path, unsaved.over(old) if old else None, args["content"])
        report = await self._drafts.check([draft], call, args.get(INSIST) or "")
        difference, size, breaks_line, earlier = await file_io.in_thread(work)
        remark = await show_change(earlier, call, self._views)
        await self._drafts.after_write([draft])
        note = " Its last line was unfinished: a line break was added." if breaks_line else ""
        text, artifacts = f"Appended {size:,} bytes to {path}.{note}", _artifacts(difference, path)
        return with_remarks(report.added_to(ToolResult(text, artifacts=artifacts)), remark)


def _picture(data: bytes, media_type: str, path: Path) -> ToolResult:
    """Return the picture. Raises ToolError if it is too large."""
    if len(data) > MAX_PICTURE_BYTES:
        raise ToolError(f"{path} is {too_large(len(data))}")
    kind = media_type.rpartition("/")[2].upper()
    text = f"{path}: a picture ({kind}, {len(data):,} bytes)."
    taint = UNTRUSTED if is_marked(path) else NOTHING
    # A model without image input reads a note about this on the next line.
    return ToolResult(f"{text}\n", for_user=text, taint=taint, images=(Image(media_type, data),))


def _text(data: bytes, path: Path) -> tuple[str, str]:
    """Return the text, and a note if some bytes are not text. Raises ToolError."""
    form = TextFormat.of(data)
    refuse_binary(data, form, path)
    text = data[len(form.byte_order_mark) :].decode(form.encoding, "replace")
    if "\ufffd" in text and not form.byte_order_mark and (encoding := legacy_encoding(data)):
        remark = "" if encoding == "latin-1" else f"\n… (the file is in {encoding})"
        return data.decode(encoding), remark
    if "\ufffd" in text and b"\xef\xbf\xbd" not in data:
        return text, f"\n… (some bytes are not valid {form.encoding} and are shown as \ufffd)"
    return text, ""


def _existing(path: Path) -> Document | None:
    """Return the document to overwrite, which is empty for a binary or very large file."""
    kind = file_io.kind(path)
    if kind is None:
        return None
    if kind == "folder":
        raise ToolError(f"{path} is a folder; give the path of a file in it.")
    try:
        return decode(file_io.read(path, MAX_BYTES), path)
    except ToolError:
        return Document("", TextFormat())


def _rewritten(path: Path, old: Document | None, content: str) -> tuple[Document | None, Document]:
    """Return the document to overwrite and the new document, both as texts of the same kind."""
    if (cells := replace_cells(old, path, content)) is not None:
        return open_cells(old, path) if old else None, cells
    form = old.form if old else TextFormat()
    return old, Document(_with_line_ends_of(old, content), form)


def _encode(document: Document) -> bytes:
    """Encode in the file's encoding; use UTF-8 if it lacks a character."""
    if document.form.is_legacy:
        with suppress(ToolError):
            return document.encode()
        document = replace(document, form=TextFormat())
    return document.encode()


def _appendable(path: Path) -> Document | None:
    document = decode(file_io.read(path, MAX_BYTES), path) if file_io.kind(path) else None
    if document is not None and isinstance(open_cells(document, path), Notebook):
        raise ToolError(f"{path} is a notebook; add a cell with edit_file or apply_patch.")
    return document


def _longer(path: Path, old: Document | None, content: str) -> Draft:
    before = old.text if old else ""
    return Draft(path, old.text if old else None, before + _appended(before, content))


def _appended(before: str, content: str) -> str:
    """Return the text to append: on a new line and with the file's line endings."""
    if not before or not content:
        return content
    if "\n" in before:
        content = content.replace("\r\n", "\n").replace("\n", line_ending(before))
    return line_ending(before) + content if _breaks_line(before, content) else content


def _breaks_line(before: str, content: str) -> bool:
    """Return whether the text ends in an unfinished line that the content does not finish."""
    is_finished = not before or before.endswith("\n")
    return bool(content) and not is_finished and not content.startswith(("\n", "\r\n"))


def _with_line_ends_of(old: Document | None, content: str) -> str:
    """Return the content with the CRLF of the replaced file, unless it contains CRLF itself."""
    if old is None or "\r\n" in content or line_ending(old.text) == "\n":
        return content
    return content.replace("\n", "\r\n")


def _line_ends(text: str, *, with_last: bool) -> str:
    """Return a note on details invisible in numbered lines: CRLF, and an unfinished last line."""
    notes = []
    count, total = text.count("\r\n"), text.count("\n")
    if count:
        some = "the lines" if count == total else f"{count:,} of {total:,} lines"
        notes.append(f"{some} end in CRLF")
    if with_last and not text.endswith("\n"):
        notes.append("the last line has no newline at its end")
    return f"\n… ({'; '.join(notes)})" if notes else ""


def _artifacts(difference: str, path: Path) -> tuple[Artifact, ...]:
    return (Artifact("diff", difference, str(path)),) if difference else ()
