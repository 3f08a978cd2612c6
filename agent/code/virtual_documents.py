"""In-memory drafts of files that a session plans to write together, and their tools.

The tools plan changes of several files, check them and write them at once. Models see them only if
an agent's definition names them.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.files import file_io
from agent.security.taint.file_marks import is_marked
from agent.security.taint.taint import PRIVATE
from agent.text.text_document import MAX_BYTES as MAX_TEXT_BYTES
from agent.text.text_document import decode, diff
from agent.tools.base import CallContext, EffectPlan
from agent.tools.file_views import FileViews
from agent.tools.files.draft_check import INSIST, Draft, DraftCheck, refuse_errors, with_insistence
from agent.tools.files.edit_matching import Edit, apply
from agent.tools.files.workspace_scope import WorkspaceScope, holds_files_of_others
from agent.tools.files.write_set import write_set
from agent.tools.schema import parameters
from agent.tools.traits import ToolTraits
from agent.types import Artifact, Effect, JsonSchema, Taint, ToolResult

if TYPE_CHECKING:
    from agent.code.lsp.draft_diagnostics import DraftDiagnostics, NewErrors


MAX_FILES = 100
MAX_BYTES = 5_000_000
# Sessions with planned files; the plan of the least recently used session is dropped.
_MAX_SESSIONS = 50


class VirtualDocuments:
    """Planned files of all sessions of an agent. Nothing is written to disk before `sync`."""

    def __init__(self, diagnostics: "DraftDiagnostics") -> None:
        self._diagnostics = diagnostics
        self._sessions: OrderedDict[str, dict[Path, Draft]] = OrderedDict()

    async def put(self, session: str, path: Path, text: str) -> None:
        """Plan this text as the content of a file. Raises `ToolError` if too much is planned."""
        drafts = self._drafts(session)
        earlier = drafts.get(path)
        before = earlier.before if earlier is not None else await read_text(path)
        other_drafts = [draft for draft in drafts.values() if draft.path != path]
        size = len(text.encode("utf-8", "replace"))
        size += sum(len((draft.after or "").encode("utf-8", "replace")) for draft in other_drafts)
        if len(other_drafts) >= MAX_FILES or size > MAX_BYTES:
            raise ToolError(
                f"At most {MAX_FILES} files and {MAX_BYTES // 1_000_000} MB can be planned at "
                "once; write some of them with sync_virtual first."
            )
        drafts[path] = Draft(path, before, text)

    def text(self, session: str, path: Path) -> str | None:
        """Return the planned content of a file, or None if it has none."""
        draft = self._drafts(session).get(path)
        return draft.after if draft is not None else None

    def planned(self, session: str, paths: Sequence[Path] = ()) -> list[Draft]:
        """Return the drafts of these paths in this order, or all drafts sorted by path.

        Raises `ToolError` for a path without a draft, or if nothing is planned.
        """
        drafts = self._drafts(session)
        if missing := next((path for path in paths if path not in drafts), None):
            raise ToolError(f"Nothing is planned for {missing}.")
        if not drafts:
            raise ToolError("Nothing is planned; use create_virtual first.")
        chosen_paths = dict.fromkeys(paths) or sorted(drafts)
        return [drafts[path] for path in chosen_paths]

    async def find_errors(self, path: Path, call: CallContext) -> "NewErrors":
        """Return the errors that the planned files would introduce.

        A guest gets only the errors of this path, because another person may have planned the other
        files.
        """
        paths = [path] if holds_files_of_others(call) else []
        return await self._diagnostics.find_errors(self.planned(call.session, paths), call)

    async def sync(self, session: str, drafts: Sequence[Draft], call: CallContext) -> None:
        """Write the drafts atomically, and remove them from the plan. Raises `ToolError`."""
        await file_io.in_thread(lambda: write_set(drafts, call))
        planned = self._drafts(session)
        for draft in drafts:
            planned.pop(draft.path, None)
        await self._diagnostics.after_write(drafts)

    def end(self, session: str) -> None:
        """Discard the planned files of a session that has ended."""
        self._sessions.pop(session, None)

    def _drafts(self, session: str) -> dict[Path, Draft]:
        drafts = self._sessions.setdefault(session, {})
        self._sessions.move_to_end(session)
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return drafts


async def read_text(path: Path) -> str | None:
    """Return the current text of a file, or None if it does not exist. Raises `ToolError`."""

    def read() -> str | None:
        if file_io.kind(path) is None:
            return None
        return decode(file_io.read(path, MAX_TEXT_BYTES), path).text

    return await asyncio.to_thread(read)


class VirtualServices(Protocol):
    """Services that the three tools share."""

    @property
    def scope(self) -> WorkspaceScope: ...
    @property
    def virtual(self) -> "VirtualDocuments": ...
    @property
    def views(self) -> FileViews: ...
    @property
    def draft_check(self) -> DraftCheck: ...
    def end_session(self, session: str) -> None: ...


class _PlanningTool:
    """Base of the tools that change only the plan."""

    # Calls of an idempotent tool run one after another, so that two edits of a file never race.
    effect: ClassVar[Effect] = "idempotent"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    only_when_named: ClassVar[bool] = True

    def __init__(self, services: VirtualServices) -> None:
        self._services = services

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Declare only a read: planned text is judged when `sync_virtual` writes it."""
        return EffectPlan(reads=(self._path(args, call),))

    def _path(self, args: Mapping[str, Any], call: CallContext) -> Path:
        return self._services.scope.find(args["path"], call)

    async def _keep(self, path: Path, text: str, call: CallContext) -> ToolResult:
        """Plan the text and report new errors in all planned files."""
        virtual = self._services.virtual
        await virtual.put(call.session, path, text)
        errors = await virtual.find_errors(path, call)
        count = len(virtual.planned(call.session))
        words = f"Planned {path}; {count} {'file is' if count == 1 else 'files are'} not written."
        report = errors.for_model("lsp/planned_errors")
        if not report:
            return ToolResult(words)
        return ToolResult(f"{words}\n{report}", for_user=words, taint=errors.taint)


class CreateVirtual(_PlanningTool):
    """Tool that plans the whole content of a new or existing file."""

    name: ClassVar[str] = "create_virtual"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "think", ("paths",), mark_for_translation("Planning a change of {path}")
    )
    parameters: ClassVar[JsonSchema] = parameters(path="string", content="string")

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/create_virtual")

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        return await self._keep(self._path(args, call), args["content"], call)


class UpdateVirtual(_PlanningTool):
    """Tool that plans a replacement in the planned text of a file, or in its text on disk."""

    name: ClassVar[str] = "update_virtual"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "think", ("paths",), mark_for_translation("Planning a change of {path}")
    )
    parameters: ClassVar[JsonSchema] = parameters(
        path="string", old_string="string", new_string="string", replace_all="boolean?"
    )

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/update_virtual")

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        path = self._path(args, call)
        text = self._services.virtual.text(call.session, path)
        if text is None:
            text = await read_text(path)
        if text is None:
            raise self._services.scope.missing(path, call)
        edit = Edit(args["old_string"], args["new_string"], args.get("replace_all") is True)
        try:
            after, _ = apply(text, edit, str(path))
        except ToolError as exc:
            # The error quotes the closest lines of the file.
            exc.untrusted = is_marked(path)
            raise
        return await self._keep(path, after, call)


class SyncVirtual:
    """Tool that writes all planned files atomically, with one approval and one undo step."""

    name: ClassVar[str] = "sync_virtual"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "edit", ("paths",), mark_for_translation("Writing the planned changes")
    )
    effect: ClassVar[Effect] = "unsafe"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    only_when_named: ClassVar[bool] = True

    def __init__(self, services: VirtualServices) -> None:
        self._services = services
        schema: JsonSchema = {
            "type": "object",
            "properties": {"paths": {"type": "array", "items": {"type": "string"}}},
        }
        self.parameters: JsonSchema = with_insistence(schema, services.draft_check)

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/sync_virtual")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """Return all files with their diffs. Raises `ToolError` for new errors if writes are
        blocked."""
        drafts = self._drafts(args, call)
        await refuse_errors(self._services.draft_check, drafts, args, call)
        return EffectPlan(
            changes=tuple(draft.path for draft in drafts if draft.before is not None),
            creates=tuple(draft.path for draft in drafts if draft.before is None),
            diff="\n".join(_diff(draft, call) for draft in drafts),
        )

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        drafts = self._drafts(args, call)
        report = await self._services.draft_check.check(drafts, call, args.get(INSIST) or "")
        await self._services.virtual.sync(call.session, drafts, call)
        for draft in drafts:
            self._services.views.record_write(call.session, draft.path)
        names = "\n".join(str(draft.path) for draft in drafts)
        artifacts = tuple(Artifact("diff", _diff(draft, call), str(draft.path)) for draft in drafts)
        return report.added_to(ToolResult(f"Wrote:\n{names}", artifacts=artifacts))

    async def end(self, session: str) -> None:
        self._services.end_session(session)

    def _drafts(self, args: Mapping[str, Any], call: CallContext) -> Sequence[Draft]:
        paths = [self._services.scope.find(path, call) for path in args.get("paths") or ()]
        drafts = self._services.virtual.planned(call.session, paths)
        if call.resumed and not drafts:
            raise ToolError("The restart discarded the planned changes; plan them again.")
        for draft in drafts:
            # Another person of the conversation may have planned it, and a folder may have become a
            # link.
            if self._services.scope.find(str(draft.path), call) != draft.path:
                raise ToolError(f"{draft.path} lies behind a link now; nothing was written.")
        return drafts


def _diff(draft: Draft, call: CallContext) -> str:
    root = call.workspace
    inside = draft.path.is_relative_to(root)
    name = str(draft.path.relative_to(root)) if inside else str(draft.path)
    return diff(name, draft.before or "", draft.after or "")
