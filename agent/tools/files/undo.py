"""`undo` tool: revert changes that tools made to files in this conversation."""

import secrets
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from agent.errors import ToolError
from agent.i18n import mark_for_translation
from agent.prompts import load_prompt
from agent.security.files import file_io
from agent.security.taint.taint import PRIVATE
from agent.settings import ToolSettings
from agent.tools.base import CallContext, EffectPlan
from agent.tools.files.draft_check import Draft, DraftCheck, NoDraftCheck
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.schema import parameters
from agent.tools.traits import ToolTraits
from agent.types import Artifact, Effect, JsonSchema, Taint, ToolResult
from agent.undo import report
from agent.undo.reversal import Reversal, UndoRequest

if TYPE_CHECKING:
    from agent.undo.ledger import PathChange

MAX_DIFF_CHARS = 20_000


class Undo:
    """Tool that restores files to their state before the last steps that changed something."""

    name: ClassVar[str] = "undo"
    traits: ClassVar[ToolTraits] = ToolTraits(
        "edit", ("paths",), mark_for_translation("Undoing changes")
    )
    effect: ClassVar[Effect] = "unsafe"
    brings: ClassVar[frozenset[Taint]] = PRIVATE
    parameters: ClassVar[JsonSchema] = parameters(steps="integer?", path="string?")

    def __init__(self, settings: ToolSettings, drafts: DraftCheck | None = None) -> None:
        self._scope = WorkspaceScope(settings)
        self._drafts = drafts or NoDraftCheck()

    @cached_property
    def description(self) -> str:
        return load_prompt("tools/undo")

    async def plan(self, args: Mapping[str, Any], call: CallContext) -> EffectPlan:
        """List the files that would change, with the diff. Raises ToolError if there are none."""
        return await file_io.in_thread(lambda: self._plan(self._request(args, call), call))

    async def run(self, args: Mapping[str, Any], call: CallContext) -> ToolResult:
        changes, result = await file_io.in_thread(
            lambda: self._run(self._request(args, call), call)
        )
        await self._drafts.after_write(changes)
        return result

    def _plan(self, request: "UndoRequest", call: CallContext) -> EffectPlan:
        reversal, blobs = _reversal(self._scope, call)
        moves = _require_any(reversal.plan(request))
        pairs = report.net_changes(moves, "undo")
        changes = tuple(path for path, (now, _) in pairs.items() if now is not None)
        creates = tuple(path for path, (now, _) in pairs.items() if now is None)
        difference = report.differences(pairs, blobs, call.workspace, MAX_DIFF_CHARS)
        return EffectPlan(changes=changes, creates=creates, diff=difference or None)

    def _run(self, request: "UndoRequest", call: CallContext) -> tuple[Sequence[Draft], ToolResult]:
        """Return the changes, without texts, and the result."""
        reversal, blobs = _reversal(self._scope, call)
        moves = _require_any(reversal.plan(request))
        root = call.workspace
        # Read before the undo: afterwards, the current content may not be stored anywhere.
        pairs = report.net_changes(moves, "undo")
        diffs = {
            path: report.differences({path: pair}, blobs, root, MAX_DIFF_CHARS)
            for path, pair in pairs.items()
        }
        outcome = reversal.carry_out(secrets.token_hex(16), "undo", moves)
        undone = outcome.paths("undone")
        artifacts = tuple(
            Artifact("diff", diffs[path], str(path)) for path in undone if diffs.get(path)
        )
        text = report.describe(outcome, "undo", root) or "Nothing needed to be restored."
        changes = [
            Draft(path, *("" if content is not None else None for content in pairs[path]))
            for path in undone
            if path in pairs
        ]
        return changes, ToolResult(text, is_error=not undone, artifacts=artifacts)

    def _request(self, args: Mapping[str, Any], call: CallContext) -> "UndoRequest":
        steps = int(args.get("steps", 1))
        if steps < 1:
            raise ToolError(f"steps must be 1 or more, found {steps}.")
        path = args.get("path")
        return UndoRequest(steps=steps, path=self._scope.find(path, call) if path else None)


def _reversal(scope: WorkspaceScope, call: CallContext) -> "tuple[Reversal, Any]":
    changes = call.changes.changes
    if changes is None:
        raise ToolError("File changes are not recorded here, so nothing can be undone.")
    return Reversal(changes, call.session, change_check(scope, call)), changes.blobs


def change_check(scope: WorkspaceScope, call: CallContext) -> Any:
    """Return a check that raises ToolError for a path that the call may not change.

    For a link, the link itself is changed, so its folder counts and not its target.
    """
    is_closed = scope.closed(call)

    def check(path: Path) -> None:
        if path.is_symlink() and not is_closed(path):
            path = path.parent
        if scope.find(str(path), call, "write") != path:
            raise ToolError(f"{path} goes through a symbolic link.")

    return check


def _require_any(moves: "tuple[PathChange, ...]") -> "tuple[PathChange, ...]":
    if all(move.verdict == "already" for move in moves):
        raise ToolError("There is nothing to undo in this conversation.")
    return moves
