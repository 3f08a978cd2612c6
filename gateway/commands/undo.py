"""Commands `/undo`, `/redo` and `/diff` for the file changes of a conversation."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from agent.approvals import FolderAccess
from agent.errors import KoreError, ToolError
from agent.i18n import plural, t
from agent.security.files.file_io import in_thread
from agent.security.policy.base import READING_TOOL, ToolRequest
from agent.tools.base import AddedFolders, CallContext, ToolEnvironment
from agent.tools.files.undo import Undo, change_check
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.types import ToolCall
from agent.undo import report
from agent.undo.change_log import ChangeLog
from agent.undo.ledger import Direction, PathChange, ReversalResult
from agent.undo.records import ChangeStep
from agent.undo.report import Pairs
from agent.undo.reversal import Reversal, UndoRequest
from gateway.commands.declaration import WORK, chat_command
from gateway.commands.dispatcher import CommandCall
from gateway.core.errors import CommandRefused
from gateway.core.markdown import escape_markdown
from gateway.store.repositories.access import grants
from gateway.store.repositories.file_changes import page_session

MAX_DIFF_CHARS = 8_000
T = TypeVar("T")


class UndoService:
    """Journal of file changes for one person's command. Raises `KoreError` without a journal."""

    @classmethod
    async def open(cls, call: CommandCall) -> "UndoService":
        """Return the service with the folders outside the workspace that the owner added."""
        folders: Sequence[FolderAccess] = ()
        if call.session is not None and call.services.access.is_private_owner(call.message):
            who, root = call.message.principal, call.folder
            database = call.services.database
            folders = await database.transact(grants.folders, who, (call.session,), root)
        return cls(call, AddedFolders(folders))

    def __init__(self, call: CommandCall, folders: AddedFolders) -> None:
        services, message = call.services, call.message
        if call.session is None or services.agent.changes is None:
            raise KoreError(t("this conversation has no changes yet"))
        self.call = call
        self.session = call.session
        self.root = call.folder
        self.changes: ChangeLog = services.agent.changes()
        self._context = CallContext(
            ToolCall("", Undo.name, {}, "{}"),
            ToolEnvironment(
                self.session,
                self.root,
                services.permissions.memory(message),
                owner=services.access.is_private_owner(message),
                start_folder=services.access.start_folder(self.root, message),
                folders=folders,
            ),
            lambda text, stream: None,
        )
        self._scope = WorkspaceScope(services.agent.settings.tools)
        self.check = change_check(self._scope, self._context)
        # The owner's conversation also covers changes that the owner made on the page in this
        # folder.
        page_changes = page_session(self.root) if self._context.owner else None
        self.reversal = Reversal(self.changes, self.session, self.check, page_changes)

    def find(self, path: str) -> Path:
        """Return the real path of a name. Raises `ToolError`."""
        return self._scope.find(path, self._context)

    async def run(self, work: Callable[[], T]) -> T:
        return await in_thread(work)

    def may_see(self, paths: Sequence[Path]) -> bool:
        """Return whether the person may see these files."""
        request = self._request(READING_TOOL, reads=tuple(paths))
        return self.call.is_owner or self._allows(request)

    def require(self, moves: Sequence[PathChange], direction: Direction) -> None:
        """Raise `KoreError` if the person may not change these files."""
        pairs = report.net_changes(moves, direction)
        changes = tuple(path for path, (now, _) in pairs.items() if now is not None)
        creates = tuple(path for path, (now, _) in pairs.items() if now is None)
        request = self._request(Undo.name, changes=changes, creates=creates)
        if not (self.call.is_owner or self._allows(request)):
            raise KoreError(t("your role does not allow this: only the owner can undo here"))

    async def carry_out(self, moves: Sequence[PathChange], direction: Direction) -> ReversalResult:
        """Carry out the changes once for this command, even if it is repeated."""
        key = f"command:{self.call.claim.seq}"
        return await self.run(lambda: self.reversal.carry_out(key, direction, moves))

    def describe(self, step: ReversalResult, direction: Direction) -> str:
        """Describe the result as markdown."""
        lines = [
            escape_markdown(line)
            for line in report.describe(step, direction, self.root).splitlines()
        ]
        if any(move.verdict in ("changed", "shared") for move in step.moves):
            lines.append(t("`/undo force` also undoes changes made by others; /redo reverts it."))
        return "\n".join(lines)

    def changed_files(self, steps: Sequence[ChangeStep], below: Path | None = None) -> Pairs:
        """Return the old and current states of the files that these steps changed.

        Files without a difference are left out. Blocks.
        """
        pairs = {}
        for path, states in report.changes_since(steps, self.changes.blobs).items():
            try:
                self.check(path)
            except ToolError:
                continue
            is_folder = "folder" in {state.kind for state in states if state}
            if not is_folder and (below is None or path.is_relative_to(below)):
                pairs[path] = states
        return pairs

    def remaining(self, outcome: ReversalResult) -> str:
        """List the remaining changed files of this conversation, as markdown.

        Blocks.
        """
        answered = {move.change.path for move in outcome.moves}
        files = self.changed_files(self.changes.ledger.steps(self.session)).keys() - answered
        if not files:
            return ""
        names = escape_markdown(report.list_paths(sorted(files), self.root))
        return t("Still changed by this conversation: {files}.", files=names)

    def _request(self, tool: str, **paths: tuple[Path, ...]) -> ToolRequest:
        effect = "read" if tool == READING_TOOL else "unsafe"
        return ToolRequest(tool, effect, {}, self.root, **paths)  # type: ignore[arg-type]

    def _allows(self, request: ToolRequest) -> bool:
        permissions, message = self.call.services.permissions, self.call.message
        policy = permissions.permissions([message], self.session, None, turn=0).policy
        return policy.decide(request).verdict == "allow"


def fenced(diff: str) -> str:
    """Return the diff in a code block, with a fence that its text cannot close."""
    longest = max(map(len, re.findall("`+", diff)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}diff\n{diff}\n{fence}"


@chat_command("undo", "undo file changes", group=WORK, position=10, audience="private")
@chat_command("redo", "redo undone changes", group=WORK, position=20, audience="private")
async def answer_undo(call: CommandCall) -> str:
    """Answer `/undo [step] [COUNT] [force] [PATH]`.

    COUNT is a number of turns or, with `step`, of tool calls.
    """
    service = await UndoService.open(call)
    request = _undo_request(service, call)
    moves = await service.run(lambda: service.reversal.plan(request))
    service.require(moves, request.direction)
    step = await service.carry_out(moves, request.direction)
    if description := service.describe(step, request.direction):
        if request.direction == "redo":
            return description
        remaining = await service.run(lambda: service.remaining(step))
        return "\n".join(filter(None, [description, remaining]))
    undo = request.direction == "undo"
    if request.path:
        path = escape_markdown(str(request.path))
        return t(
            "There is nothing to undo in {path}."
            if undo
            else "There is nothing to redo in {path}.",
            path=path,
        )
    return t(
        "There is nothing to undo in this conversation."
        if undo
        else "There is nothing to redo in this conversation."
    )


def _undo_request(service: UndoService, call: CommandCall) -> UndoRequest:
    words = call.argument.split()
    steps, force = 1, False
    by_step = bool(words) and words[0].lower() in ("step", "steps")
    if by_step:
        del words[0]
    if words and words[0].isdecimal():
        steps = int(words.pop(0)[:6])
        if steps < 1:
            raise KoreError(
                t(
                    "found {steps}, expected at least 1, as in `/{call} 2`",
                    steps=steps,
                    call=call.name,
                )
            )
    if words and words[0].lower() == "force":
        force = bool(words.pop(0))
    path = service.find(" ".join(words)) if words else None
    return UndoRequest(
        "undo" if call.name == "undo" else "redo",
        steps,
        by_turn=not by_step,
        path=path,
        force=force,
    )


@chat_command("diff", "show what this conversation changed", group=WORK, position=30)
async def answer_diff(call: CommandCall) -> str:
    """Answer `/diff [last] [PATH]`."""
    service = await UndoService.open(call)
    first, *rest = call.argument.split(maxsplit=1) or [""]
    last = first == "last"
    name = (rest[0] if rest else "") if last else call.argument
    pairs = await service.run(lambda: _pairs(service, name, last))
    if not pairs and name:
        return t("No changes to {escaped} in this conversation.", escaped=escape_markdown(name))
    if not pairs:
        return t("This conversation has no file changes, or all of them were undone.")
    if not service.may_see(list(pairs)):
        raise CommandRefused(t("Your role does not allow you to see these files."))
    names = escape_markdown(report.list_paths(pairs, service.root))
    text = await service.run(
        lambda: report.differences(pairs, service.changes.blobs, service.root, MAX_DIFF_CHARS)
    )
    head = plural(
        len(pairs), "{n} file changed: {names}", "{n:,} files changed: {names}", names=names
    )
    return head + (f"\n\n{fenced(text)}" if text else "")


def _pairs(service: UndoService, name: str, last: bool) -> Pairs:
    steps = service.changes.ledger.steps(service.session)
    if last and steps:
        steps = [step for step in steps if step.turn == steps[0].turn]
    return service.changed_files(steps, service.find(name) if name else None)
