"""A workspace with a change log, and tools called in it as in a turn."""

import asyncio
import itertools
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent.errors import ToolError
from agent.settings import ToolSettings
from agent.tools.base import CallContext, DescribesEffects, EffectPlan, ToolEnvironment
from agent.tools.built_in import default_tools
from agent.tools.file_views import stamp
from agent.tools.files.undo import change_check
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.registry import ToolRegistry
from agent.types import ToolCall, ToolResult
from agent.undo.blob_store import BlobStore
from agent.undo.change_log import ChangeLog
from agent.undo.file_ledger import FileLedger
from agent.undo.ledger import ReversalResult, UndoOperation
from agent.undo.recorder import RecorderFactory
from agent.undo.records import ChangeOrigin
from agent.undo.reversal import Reversal, UndoRequest

_ids = itertools.count(1)


@dataclass
class Scene:
    """A workspace; `call` runs a tool in it, `store` is the folder of the log."""

    root: Path
    store: Path
    session: str = "s1"
    turn: int = 1
    limit_bytes: int = 500_000_000
    settings: ToolSettings = field(default_factory=ToolSettings)

    def __post_init__(self) -> None:
        self.root.mkdir(exist_ok=True)
        self.toolbox = ToolRegistry(default_tools(self.settings))
        self.changes = self.reopened()

    def reopened(self) -> ChangeLog:
        """Return the log as opened by a new process."""
        return ChangeLog(
            FileLedger(self.store), BlobStore(self.store, limit_bytes=self.limit_bytes)
        )

    def context(self, name: str = "undo", session: str | None = None) -> CallContext:
        n = next(_ids)
        session = session or self.session
        recording = RecorderFactory(lambda: self.changes, self.turn)
        return CallContext(
            ToolCall(f"c{n}", name, {}, "{}"),
            ToolEnvironment(session, self.root, self.root / "memory" / "MEMORY.md", owner=True),
            lambda text, stream: None,
            changes=recording.recorder(session, f"c{n}", name, self.root),
        )

    def origin(self, name: str) -> ChangeOrigin:
        """Return a recorder for a new call of this tool."""
        return ChangeOrigin(self.session, self.turn, f"c{next(_ids)}", name, self.root.resolve())

    def call(self, name: str, session: str | None = None, **args: Any) -> ToolResult:
        tool = self.toolbox.get(name)
        context = self.context(name, session)

        async def run() -> ToolResult:
            plan = (
                await tool.plan(args, context)
                if isinstance(tool, DescribesEffects)
                else EffectPlan()
            )
            call_context = replace(context, plan=plan)
            return context.changes.with_notes(await tool.run(args, call_context))

        return asyncio.run(run())

    def write(self, name: str, text: str, **more: Any) -> None:
        """Edit a file that the session has read before, as a model does."""
        session, path = more.get("session") or self.session, self.root.resolve() / name
        self.toolbox.views.record_view(session, path, stamp(path))
        self.call("write_file", path=name, content=text, **more)

    def reverse(
        self, request: UndoRequest | None = None, key: str | None = None, **more: Any
    ) -> ReversalResult:
        """Undo or redo, as the chat command does; without a key this is a new operation."""
        request = request or UndoRequest()
        reversal = self.reversal(**more)
        return reversal.carry_out(
            key or secrets.token_hex(8), request.direction, reversal.plan(request)
        )

    def reversal(
        self,
        session: str | None = None,
        check: Callable[[Path], object] | None = None,
        beside: str | None = None,
    ) -> Reversal:
        check = check or change_check(WorkspaceScope(self.settings), self.context())
        return Reversal(self.changes, session or self.session, check, beside)

    def undo(self, **more: Any) -> ReversalResult:
        return self.reverse(UndoRequest("undo", **more))

    def redo(self, **more: Any) -> ReversalResult:
        return self.reverse(UndoRequest("redo", **more))

    def text(self, name: str) -> str | None:
        path = self.root / name
        return path.read_text() if path.exists() else None


class Torn(Exception):
    """The process ended here."""


class TornLedger(FileLedger):
    """Ends the process before or right after a chosen method."""

    at = ""

    def begin(self, act: UndoOperation) -> UndoOperation:
        operation = super().begin(act)
        if self.at == "begun":
            raise Torn
        return operation

    def end(self, ending: Any) -> None:
        if self.at == "before the end":
            raise Torn
        super().end(ending)


__all__ = ["Scene", "ToolError", "Torn", "TornLedger"]
