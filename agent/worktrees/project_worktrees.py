"""Worktrees of a person's projects, which count as trusted if their repository does."""

import filecmp
import os
from pathlib import Path

from agent.i18n import t
from agent.records import frozen
from agent.security.taint.file_marks import MarkLevel, is_marked, mark_level, mark_tainted
from agent.security.taint.origin import TrustedOrigins
from agent.worktrees.git import WorktreeError, find_checkout
from agent.worktrees.names import LEAVE
from agent.worktrees.worktrees import MergeResult, Worktree, Worktrees, check_name, list_files


@frozen
class ProjectWorktrees:
    """Worktrees in `parent` (None: next to their repositories).

    All methods block.
    """

    origin: TrustedOrigins
    parent: Path | None = None

    def of(self, folder: Path) -> Worktrees:
        """Return the worktrees of a repository, given the top of a checkout (a real path).

        Raises `WorktreeError`.
        """
        checkout = find_checkout(folder, is_trusted=self.origin.is_own(folder))
        worktrees = Worktrees(checkout, self.parent)
        record = self.origin.worktrees
        if record is not None and record.own_folder is not None:
            own = Path(os.path.realpath(record.own_folder))
            if worktrees.parent.is_relative_to(own):
                raise WorktreeError(
                    t("{folder} is in Kore's own folder, which is closed", folder=worktrees.parent),
                    hint=t("choose a folder for worktrees: agent.worktrees"),
                )
        return worktrees

    def check(self, folder: Path, name: str) -> None:
        """Raise `WorktreeError` where no worktree of this name is possible, trusted or not."""
        check_name(name)
        find_checkout(folder, is_trusted=True)

    def open(self, folder: Path, name: str, holder: str | None = None) -> Worktree:
        """Return a worktree of the repository, which is created if needed, and locked for a
        `holder`.

        Raises `WorktreeError`.
        """
        worktrees = self.of(folder)
        worktree = worktrees.open(name, holder)
        main, record = worktrees.checkout.main, self.origin.worktrees
        if not worktree.is_new:
            self.origin.adopt(worktree.folder)
        elif record is not None and self.origin.is_own(main):
            try:
                # In a bare repository, this may be a recorded worktree itself.
                record.add(worktree.folder, record.in_repository(main) or main)
            except OSError as exc:
                raise WorktreeError(
                    t(
                        "{folder} cannot be written to: {reason}",
                        folder=record.own_folder,
                        reason=exc.strerror,
                    )
                ) from exc
        return worktree

    def enter(self, folder: Path, name: str) -> Path:
        """Return the folder of a worktree as `open` does, or of the main checkout for "leave".

        Raises `WorktreeError`.
        """
        if name != LEAVE:
            return self.open(folder, name).folder
        checkout = self.of(folder).checkout
        if checkout.is_bare:
            raise WorktreeError(t("the repository of {folder} has no main checkout", folder=folder))
        return checkout.main

    def remark(self, folder: Path, worktree: Path) -> str:
        """Return a sentence about what is missing in a worktree of the repository, or ''.

        Raises `WorktreeError`.
        """
        worktrees = self.of(folder)
        listed = [tree for tree in worktrees.list() if tree.folder == worktree]
        names = [name for tree in listed for name in worktrees.empty_submodules(tree)]
        if not names:
            return ""
        return t(
            "Its submodules have no files ({names}); to get them: {command}",
            names=list_files(names),
            command="git submodule update --init --recursive",
        )

    def merge(self, folder: Path, name: str) -> MergeResult:
        """Merge the branch of a worktree into the checkout `folder`.

        If `folder` is the worktree itself, merge into the main checkout. Files that were written
        with untrusted text in context are marked again after the merge. Raises `WorktreeError`.
        """
        worktrees = self.of(folder)
        worktree = worktrees.find(name)
        if worktree.folder == folder:
            worktrees = self.of(worktrees.checkout.main)
        merged, target = worktrees.merge(worktree), worktrees.checkout.folder
        for file in merged.files:
            level = _level_of_merged(worktree, file, target)
            if level != "none" and os.path.lexists(target / file):
                mark_tainted(target / file, target, unseen=level == "unseen")
        return merged

    def remove(self, folder: Path, name: str) -> Worktree:
        """Remove a worktree that contains no unmerged work, and return it.

        Raises `WorktreeError`.
        """
        worktrees = self.of(folder)
        worktree = worktrees.find(name)
        worktrees.remove(worktree)
        if self.origin.worktrees is not None:
            self.origin.worktrees.remove(worktree.folder)
        return worktree


def _level_of_merged(worktree: Worktree, file: str, target: Path) -> MarkLevel:
    """Return the mark level of a file that was merged from a worktree into `target`.

    A command can hide from git that a file differs from its commit. Only a file that is identical
    in both places has the marks of the merged text.
    """
    source, merged = worktree.folder / file, target / file
    try:
        is_same = not source.is_symlink() and filecmp.cmp(source, merged, shallow=False)
    except OSError:
        is_same = False
    if is_same:
        return mark_level(source)
    # The marks of a folder that was deleted are unknown.
    return "unseen" if worktree.is_missing or is_marked(worktree.folder) else "none"
