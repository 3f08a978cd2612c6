"""Remote changes to files in the owner's folders.

The scope and the policy of the owner's tools apply. Changes go into the undo journal, under a
separate name for each folder.
"""

import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agent.errors import KoreError, PolicyDenied, ToolError
from agent.i18n import t
from agent.records import frozen
from agent.security.files import file_io
from agent.security.files.safe_open import open_folder_beneath
from agent.security.policy.base import WRITING_TOOL, ToolRequest
from agent.settings import ToolSettings
from agent.text.visible import escape_line
from agent.tools.base import CallContext
from agent.tools.files.move import MoveFile
from agent.tools.files.undo import Undo, change_check
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.undo import report
from agent.undo.ledger import PathChange
from agent.undo.recorder import OpenChangeLog, Recorder
from agent.undo.records import ChangeOrigin
from agent.undo.reversal import Reversal, UndoRequest
from gateway.access.policy_case import make_case
from gateway.access.roles import RoleRegistry
from gateway.core.messages import CONSOLE
from gateway.ops.project_files import ProjectFiles
from gateway.store.repositories.file_changes import page_session

_OWNER_ROLE = "build"
T = TypeVar("T")


@frozen
class ChangeRules:
    """Rules for changes, and the journal for them (None: no journal)."""

    tools: ToolSettings
    policies: RoleRegistry
    open_log: OpenChangeLog | None


class ProjectChanges:
    """Editor of project files without cached state.

    A question of the policy counts as answered, because it would be put to the person who makes the
    change. A denial applies.
    """

    def __init__(self, files: ProjectFiles, rules: ChangeRules) -> None:
        self._files = files
        self._rules = rules
        self._scope = WorkspaceScope(rules.tools)

    async def write(self, place: str, path: str, text: str, digest: str) -> Mapping[str, Any]:
        """Write a file; see `ProjectFiles.write_file`."""

        def work() -> Mapping[str, Any]:
            call = self._call(place, WRITING_TOOL)
            self._judge_write(call, path)
            return self._files.write_file(call, path, text, digest)

        return await file_io.in_thread(work)

    async def make_folder(self, place: str, path: str) -> str:
        """Create a folder and its parents. Raises `KoreError` if the path exists."""

        def work() -> str:
            call = self._call(place, WRITING_TOOL)
            folder = self._files.find(call, path)
            if os.path.lexists(folder):
                raise KoreError(t("{name} already exists", name=escape_line(path)))
            self._judge_write(call, path)
            with call.changes.folder(folder), open_folder_beneath(folder, create=True):
                return t("Created {name}.", name=escape_line(path))

        return await _explained(lambda: file_io.in_thread(work))

    async def move(self, place: str, path: str, to: str | None) -> str:
        """Move or rename a path, or delete it (`to` is None)."""
        if to is not None and not to.strip():
            raise KoreError(t("the new name is empty"))
        call = await file_io.in_thread(lambda: self._call(place, MoveFile.name))
        arguments = {"path": path} if to is None else {"path": path, "to": to}
        tool = MoveFile(self._rules.tools)

        async def work() -> str:
            plan = await tool.plan(arguments, call)
            request = plan.request(tool, arguments, self._root(call))
            await file_io.in_thread(lambda: self._require_inside(request))
            await file_io.in_thread(lambda: self._judge(request))
            await tool.run(arguments, call)
            name = escape_line(path)
            if to is None:
                sentence = t("Deleted {name}.", name=name)
            else:
                sentence = t("Moved {name} to {target}.", name=name, target=escape_line(to))
            return "\n".join([sentence, *call.changes.notes])

        return await _explained(work)

    async def take_back(self, place: str, *, is_redo: bool) -> Mapping[str, Any]:
        """Undo or redo the latest change made here.

        `text` describes the result, `paths` are the changed files and folders.
        """

        def work() -> Mapping[str, Any]:
            call = self._call(place, Undo.name)
            root = self._root(call)
            if self._rules.open_log is None:
                raise KoreError(t("changes are not recorded here"))
            check = change_check(self._scope, call)
            reversal = Reversal(self._rules.open_log(), page_session(root), check)
            request = UndoRequest("redo" if is_redo else "undo")
            moves = reversal.plan(request)
            if not any(move.verdict != "already" for move in moves):
                nothing = (
                    t("There is nothing to redo.") if is_redo else t("There is nothing to undo.")
                )
                raise KoreError(nothing)
            self._judge_moves(moves, request, root)
            done = reversal.carry_out(secrets.token_hex(16), request.direction, moves)
            paths = done.paths("done" if is_redo else "undone")
            text = report.describe(done, request.direction, root) or t("Done.")
            names = [str(path.relative_to(root)) for path in paths if path.is_relative_to(root)]
            return {"text": text, "paths": names}

        return await _explained(lambda: file_io.in_thread(work))

    def _judge_write(self, call: CallContext, path: str) -> None:
        file = self._files.find(call, path)
        exists = os.path.lexists(file)
        request = ToolRequest(
            WRITING_TOOL,
            "idempotent",
            {"path": path},
            self._root(call),
            changes=(file,) if exists else (),
            creates=() if exists else (file,),
        )
        self._judge(request)

    def _judge_moves(self, moves: Sequence[PathChange], request: UndoRequest, root: Path) -> None:
        pairs = report.net_changes(moves, request.direction)
        changes = tuple(path for path, (now, _) in pairs.items() if now is not None)
        creates = tuple(path for path, (now, _) in pairs.items() if now is None)
        self._judge(ToolRequest(Undo.name, "unsafe", {}, root, changes=changes, creates=creates))

    def _judge(self, request: ToolRequest) -> None:
        """Raise `PolicyDenied` if the policy denies the request."""
        sandbox = self._rules.tools.sandbox
        case = make_case(
            self._rules.policies,
            role=_OWNER_ROLE,
            mode="accept-edits",
            channel=CONSOLE,
            folder=request.workspace,
            is_confined=sandbox is not None and sandbox.confines,
        )
        decision = case.policy.decide(request)
        if decision.verdict == "deny":
            raise PolicyDenied(decision.reason)

    def _require_inside(self, request: ToolRequest) -> None:
        """Raise `KoreError` for paths outside of the folder, even if tools may use them."""
        for path in (*request.changes, *request.creates):
            if not path.is_relative_to(request.workspace):
                name = escape_line(str(path))
                raise KoreError(t("{path} is not in {folder}", path=name, folder=request.workspace))

    def _call(self, place: str, tool: str) -> CallContext:
        root = Path(place)
        origin = ChangeOrigin(page_session(root), 0, secrets.token_hex(8), tool, root)
        return self._files.call(place, Recorder(self._rules.open_log, origin))

    def _root(self, call: CallContext) -> Path:
        return call.workspace.resolve()


async def _explained(work: Callable[[], Awaitable[T]]) -> T:
    try:
        return await work()
    except ToolError as exc:
        raise KoreError(str(exc)) from exc
