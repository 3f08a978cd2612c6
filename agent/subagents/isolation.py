"""Git worktrees of sub-agents that change files while other work in the project continues."""

import hashlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.folder_identity import FolderIdentity
from agent.subagents.definition import SubagentDefinition
from agent.tools.base import CallContext, SubagentRequest, ToolEnvironment
from agent.tools.registry import ToolRegistry
from agent.worktrees.git import WorktreeError
from agent.worktrees.project_worktrees import ProjectWorktrees
from agent.worktrees.worktrees import PREFIX, SUBAGENT_PREFIX, Worktree, Worktrees, list_files

_NO_LETTER = re.compile(r"[^A-Za-z0-9]+")
_MAX_AGENT_CHARS = 20


@frozen
class IsolatedFolder:
    """Folder of a sub-agent in a worktree, the start folder in it, and the sub-agent's prompt."""

    workspace: Path
    start_folder: Path | None
    prompt: str

    def apply(self, environment: ToolEnvironment) -> ToolEnvironment:
        return replace(
            environment,
            workspace=self.workspace,
            start_folder=self.start_folder,
            identity=FolderIdentity.of(self.workspace),
            # The editor has unsaved text only for the caller's folder.
            editor=None,
        )


@frozen
class SubagentIsolation:
    """Decides which sub-agents get a worktree, creates it and ends its use.

    With `is_default`, a sub-agent that may change files gets one if it starts together with others
    or in the background. `prepare` and `finish` block.
    """

    worktrees: ProjectWorktrees
    toolbox: ToolRegistry
    is_default: bool

    def is_wanted(
        self,
        request: SubagentRequest,
        definition: SubagentDefinition,
        call: CallContext,
        *,
        is_background: bool,
    ) -> bool | None:
        """Return whether a sub-agent gets a worktree; None if only where nothing is left out.

        Raises `ToolError` if anyone but the owner asks for one.
        """
        choice = request.isolation or definition.isolation
        if choice == "worktree" and not call.owner:
            raise ToolError("Worktrees are only for the owner: leave out isolation.")
        if choice is not None:
            return choice == "worktree"
        is_parallel = is_background or call.same_calls > 1
        if self.is_default and call.owner and is_parallel and self._may_change(definition):
            return None
        return False

    def _may_change(self, definition: SubagentDefinition) -> bool:
        return definition.mode != "plan" and self.toolbox.edits_text(definition.chooses)

    def holders(self, call: CallContext) -> Mapping[str, str]:
        """Return the holders of locked worktrees of sub-agents, by name. Blocks."""
        try:
            return self.worktrees.of(call.workspace).holders()
        except WorktreeError:
            return {}

    def prepare(
        self,
        call: CallContext,
        name: str,
        *,
        holder: str,
        ended: Mapping[str, str],
        is_required: bool,
    ) -> IsolatedFolder | None:
        """Return the folder of a worktree for a sub-agent, which is created if needed.

        It is locked for its `holder`; locks of holders that have `ended` are removed. Unless it
        `is_required`, None outside of a repository, and where a worktree would leave out
        uncommitted changes. Raises `ToolError` if a required one cannot be created.
        """
        try:
            worktrees = self.worktrees.of(call.workspace)
            left_out = worktrees.uncommitted_files()
            if left_out and not is_required:
                return None
            worktrees.release(ended)
            worktrees.remove_merged()
            folder = self.worktrees.open(call.workspace, name, holder).folder
        except WorktreeError as exc:
            if not is_required:
                return None
            raise ToolError(f"No worktree for the sub-agent: {exc}") from exc
        start_folder = folder / call.environment.base.relative_to(call.workspace)
        has_start = start_folder != folder and start_folder.is_dir()
        note = render_prompt(
            "subagent_in_worktree",
            folder=call.workspace,
            left_out=list_files(left_out) or "nothing",
        )
        return IsolatedFolder(folder, start_folder if has_start else None, note)

    def discard(self, call: CallContext, name: str, holder: str) -> None:
        """Unlock the worktree of a sub-agent that does not start; an empty one is removed. Blocks.

        If that fails, the next sub-agent to start does it.
        """
        with suppress(WorktreeError):
            worktrees = self.worktrees.of(call.workspace)
            worktrees.release({name: holder})
            worktrees.remove_merged()

    def finish(
        self, folder: Path, agent: str, number: int, *, holder: str, is_busy: bool = False
    ) -> str:
        """Commit the changes in a worktree, and return a text about them for the caller.

        It is unlocked if its lock is that of the `holder`. A worktree without changes is removed,
        unless it `is_busy`: commands still run there.
        """
        if not folder.is_dir():
            return render_prompt(
                "subagent_worktree_gone", folder=folder, branch=f"{PREFIX}{folder.name}"
            )
        try:
            worktree, worktrees = self._find(folder)
            worktrees.commit(worktree, f"Changes of sub-agent {agent} ({number})")
            worktrees.release({worktree.name: holder})
            worktree, worktrees = self._find(folder)
            files = worktrees.own_files(worktree)
            is_free = worktree.lock is None and not is_busy
            if not files and is_free and not worktrees.has_own_commits(worktree):
                self.worktrees.remove(worktrees.checkout.folder, worktree.name)
                return render_prompt("subagent_worktree_empty")
        except WorktreeError as exc:
            return render_prompt("subagent_worktree_kept", folder=folder, reason=exc)
        return render_prompt(
            "subagent_worktree",
            folder=folder,
            branch=worktree.branch or worktree.commit,
            files=list_files(files) or "none",
        )

    def _find(self, folder: Path) -> tuple[Worktree, Worktrees]:
        """Return a worktree and the worktrees as seen from another checkout."""
        worktrees = self.worktrees.of(folder)
        checkout = worktrees.checkout
        if not checkout.is_bare:
            worktrees = self.worktrees.of(checkout.main)
        else:
            others = [tree.folder for tree in worktrees.list() if not tree.is_missing]
            other = next((path for path in others if path != folder), folder)
            worktrees = self.worktrees.of(other)
        for worktree in worktrees.list():
            if worktree.folder == folder:
                return worktree, worktrees
        raise WorktreeError(f"git does not list {folder}")


def worktree_name(agent: str, *key: object) -> str:
    """Return the name of a sub-agent's worktree; the same for the same key."""
    digest = hashlib.sha256(os.fsencode(repr(key))).hexdigest()[:8]
    words = _NO_LETTER.sub("-", agent)[:_MAX_AGENT_CHARS].strip("-") or "agent"
    return f"{SUBAGENT_PREFIX}{words}-{digest}"
