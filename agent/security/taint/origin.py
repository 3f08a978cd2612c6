"""Origin of files: the owner's folders, or anywhere else."""

import os
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from agent.records import frozen
from agent.security.files.git_layout import find_outer_store
from agent.security.files.instruction_files import (
    GIT,
    is_instruction_file,
    is_project_instructions,
)
from agent.security.taint.file_marks import MarkLevel, is_marked
from agent.security.taint.worktree_record import WorktreeRecord
from agent.types import Taint


@frozen
class TrustedOrigins:
    """Folders whose files count as the owner's.

    `own` contains the workspace and the trusted folders, by their real paths. Everything else is
    untrusted because of its location, including its name, with or without marks. `worktrees` count
    like the main checkouts of their repositories.
    """

    own: tuple[Path, ...] = ()
    worktrees: WorktreeRecord | None = None

    @property
    def personal(self) -> Path | None:
        """The personal workspace, which is the first folder."""
        return next(iter(self.own), None)

    def is_foreign(self, workspace: Path, taint: Collection[Taint]) -> bool:
        """Return whether strangers may influence work in a workspace.

        True if it is outside the folders, or if it is a trusted project and the conversation
        contains untrusted text.
        """
        if self.personal is not None and is_in(workspace, (self.personal,)):
            return False
        return "untrusted" in taint or not self.is_own(workspace)

    def is_own(self, path: Path) -> bool:
        """Return whether the real path of a file or folder is in one of the folders.

        A path that changes during the check is in none.
        """
        try:
            return self.covers(os.path.realpath(path))
        except OSError:
            return False

    def covers(self, real: str) -> bool:
        """Return whether this real path is in one of the folders."""
        if not self.own or self.worktrees is None or lies_in(real, self.own):
            return lies_in(real, self.own)
        counterpart = self.worktrees.in_repository(Path(real))
        return counterpart is not None and is_in(counterpart, self.own)

    def adopt(self, folder: Path) -> Path | None:
        """Record a worktree that the person made with git, if its repository is trusted.

        Call this when a person starts work in `folder`, a real path: git's files cannot prove that
        choice. Returns the main checkout of a newly recorded worktree. Other folders are not
        recorded, nor is a worktree whose link may have been written by a command with untrusted
        text. May block.
        """
        store = find_outer_store(folder)
        if self.worktrees is None or store is None or store.own == store.common:
            return None
        main = store.common.parent
        if store.common.name != GIT or self.is_own(folder) or not self.is_own(main):
            return None
        if any(map(is_marked, (folder / GIT, store.own / "gitdir", store.own / "commondir"))):
            return None
        try:
            self.worktrees.add(folder, main)
        except OSError:
            # A record that cannot be written must not stop the start: continue untrusted.
            return None
        return main

    def is_untrusted(self, path: Path) -> bool:
        """Return whether the contents of a path may be untrusted text."""
        return not self.is_own(path) or is_marked(path)


def is_unconfirmed(path: Path, workspace: Path, level: MarkLevel) -> bool:
    """Return whether a file of this mark level must not be used as instructions.

    True if it was written with untrusted text in context and no person was asked about it. A
    command may have done that at any depth, or a file tool, which asks only for files that match
    `is_instruction_file`. `kore trust` confirms the file.
    """
    if level == "seen":
        absolute, root = os.path.abspath(path), os.path.realpath(workspace)
        # Earlier versions asked about project instructions only at the top of the workspace.
        is_nested = is_project_instructions(path.name) and os.path.dirname(absolute) != root
        return is_nested or not is_instruction_file(absolute, root)
    return level == "unseen"


def unconfirmed_notice(path: Path) -> str:
    """Return a message for the person that explains why the file is not used."""
    return (
        f"{path} was written by a command or tool that may have read untrusted content, so it is "
        "not used. Review the file; then trust it: "
        f"kore trust {shlex.quote(str(path))}"
    )


def is_in(path: Path, places: Sequence[Path]) -> bool:
    """Return whether the real path is in one of the places, or is one of them.

    Places are real paths. A place that was replaced by a link, possibly by a command, does not
    count. A path that changes during the check is in none.
    """
    if not places:
        return False
    try:
        return lies_in(os.path.realpath(path), places)
    except OSError:
        return False


def lies_in(real: str, places: Sequence[Path]) -> bool:
    """Return whether this real path is in one of the places, or is one of them."""
    # Compare strings: every turn asks, and `Path` takes several times as long.
    return any(f"{real}/".startswith(os.path.join(place, "")) for place in places)
