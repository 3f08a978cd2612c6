"""Linked worktrees of a repository: create, list, commit, merge and remove, without loss.

Git itself keeps the record, so a crash leaves nothing that a list does not show.
"""

import fcntl
import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from agent.i18n import t
from agent.records import frozen
from agent.security.files.git_layout import find_outer_store
from agent.security.files.instruction_files import GIT
from agent.security.files.safe_open import open_folder_beneath
from agent.text.visible import escape_line
from agent.worktrees.git import Checkout, GitResult, WorktreeError, check_state, failure_of
from agent.worktrees.names import ACTIONS, LEAVE

PREFIX = "kore/"
# Prefix of the names of worktrees that Kore creates for sub-agents.
SUBAGENT_PREFIX = "sub-"
_HEADS = "refs/heads/"
# Reason of Kore's own locks, before the name of their holder.
_LOCK = "sub-agent of kore: "
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,62}")
_MAX_FILES = 10
_USAGE_ERROR = 129
# Files that git keeps while its work in a checkout is unfinished, and the command that undoes it.
_UNFINISHED = {
    "MERGE_HEAD": "git merge --abort",
    "CHERRY_PICK_HEAD": "git cherry-pick --abort",
    "REVERT_HEAD": "git revert --abort",
    "BISECT_LOG": "git bisect reset",
    "rebase-merge": "git rebase --abort",
    "rebase-apply": "git rebase --abort",
    "sequencer": "git cherry-pick --abort",
}


@frozen
class Worktree:
    """Linked worktree, named after its folder.

    `branch` is None for a detached HEAD. `is_missing` means that the folder was deleted by hand,
    `is_unfinished` that git is still creating it, or was stopped while it did, and `is_new` that
    Kore has just created it. Git does not remove one with a `lock`, which is the reason that git
    was told. Those of working sub-agents have one.
    """

    folder: Path
    branch: str | None
    commit: str
    is_missing: bool
    is_unfinished: bool
    lock: str | None
    is_new: bool = field(default=False, compare=False)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def holder(self) -> str | None:
        """Work of a sub-agent that Kore has locked it for; None for other locks."""
        if self.lock is None or not self.lock.startswith(_LOCK):
            return None
        return self.lock.removeprefix(_LOCK)


@frozen
class WorktreeState:
    """Work that exists only in a worktree.

    `changed_files` are those without a commit, `commits` the number of commits that the current
    checkout does not have, `is_contained` says that another branch has all of them. `unfinished` is
    a merge or the like in progress. `empty_submodules` have no files there.
    """

    changed_files: Sequence[str]
    commits: int
    is_contained: bool
    unfinished: WorktreeError | None = None
    empty_submodules: Sequence[str] = ()


@frozen
class MergeResult:
    """Merged commits and the files that they changed."""

    branch: str
    target: str
    commits: int
    files: Sequence[str]


class Worktrees:
    """Worktrees of a checkout's repository.

    New worktrees start from the checkout and are merged into it. `parent` is the folder for new
    worktrees; None means next to the repository. All methods block and raise `WorktreeError`.
    """

    def __init__(self, checkout: Checkout, parent: Path | None = None) -> None:
        self._checkout = checkout
        place = checkout.common if checkout.is_bare else checkout.main
        if parent is not None:
            digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:8]
            self._parent = Path(os.path.realpath(parent)) / f"{place.name}-{digest}"
        elif checkout.is_bare and place.name.startswith("."):
            # A hidden store, whose worktrees are next to it.
            self._parent = place.parent
        else:
            name = place.stem if checkout.is_bare else place.name
            self._parent = place.with_name(f"{name}.worktrees")

    @property
    def checkout(self) -> Checkout:
        return self._checkout

    @property
    def parent(self) -> Path:
        """Folder for new worktrees."""
        return self._parent

    def list(self) -> list[Worktree]:
        """Return all linked worktrees, in git's order."""
        worktrees = []
        # The first entry is the main checkout, or the bare repository.
        for entry in self._listing().split("\0\0")[1:]:
            facts = dict(attribute.partition(" ")[::2] for attribute in entry.split("\0"))
            folder = Path(facts.get("worktree", ""))
            if folder.is_absolute() and "HEAD" in facts:
                branch = facts.get("branch", "").removeprefix(_HEADS) or None
                is_missing = "prunable" in facts or not folder.is_dir()
                is_unfinished = facts.get("locked") == "initializing"
                worktrees.append(
                    Worktree(
                        *(folder, branch, facts["HEAD"], is_missing, is_unfinished),
                        lock=facts.get("locked"),
                    )
                )
        return worktrees

    def _listing(self) -> str:
        """Return git's list: attributes end with a null character, entries with another one."""
        words = ("worktree", "list", "--porcelain")
        listed = self._checkout.run(*words, "-z")
        if listed.code == _USAGE_ERROR:
            # Git before 2.36, which cannot separate names with line breaks either.
            return self._checkout.ask(*words).replace("\n", "\0")
        if listed.code != 0:
            # One entry without its link to the store makes git fail for all of them.
            _complete_entries(self._checkout.common)
            listed = self._checkout.run(*words, "-z")
        if listed.code != 0:
            raise WorktreeError(failure_of(words[0], listed))
        return listed.output

    def find(self, name: str) -> Worktree:
        """Return the worktree of this name, preferably the one on Kore's branch of this name."""
        namesakes = [worktree for worktree in self.list() if worktree.name == name]
        own = [worktree for worktree in namesakes if worktree.branch == PREFIX + name]
        if len(own or namesakes) == 1:
            return (own or namesakes)[0]
        if namesakes:
            raise WorktreeError(t("several worktrees are named {name}", name=escape_line(name)))
        names = ", ".join(escape_line(worktree.name) for worktree in self.list())
        raise WorktreeError(
            t("there is no worktree {name}", name=escape_line(name)),
            hint=t("there are: {names}", names=names) if names else None,
        )

    def open(self, name: str, holder: str | None = None) -> Worktree:
        """Return the worktree of this name, which is created if needed, and locked for a `holder`.

        A worktree whose folder was deleted by hand is restored with the commits of its branch.
        """
        check_name(name)
        if holder is None:
            worktree = self._existing(name)
            if worktree is not None and not worktree.is_unfinished:
                return worktree
        with self._locked_parent():
            worktree = self._create(name)
            if holder is not None and worktree.holder != holder:
                self.unlock(worktree)
                if worktree.lock is None or worktree.holder is not None:
                    reason = _LOCK + holder
                    self._checkout.ask("worktree", "lock", "--reason", reason, str(worktree.folder))
            return worktree

    def unlock(self, worktree: Worktree) -> None:
        """Remove Kore's own lock; one that a person has made stays."""
        if worktree.holder is not None:
            self._checkout.ask("worktree", "unlock", str(worktree.folder))

    def holders(self) -> Mapping[str, str]:
        """Return the holders of the locks of sub-agents, by the name of the worktree."""
        return {
            worktree.name: worktree.holder
            for worktree in self.list()
            if worktree.holder is not None and worktree.folder == self._parent / worktree.name
        }

    def release(self, holders: Mapping[str, str]) -> None:
        """Remove the locks of these holders, whose work is over, by the name of the worktree."""
        if not holders:
            return
        with self._locked_parent():
            for worktree in self.list():
                if worktree.holder is not None and holders.get(worktree.name) == worktree.holder:
                    self.unlock(worktree)

    def remove_merged(self) -> None:
        """Remove worktrees of sub-agents that contain no unmerged work.

        Worktrees of working sub-agents are locked and not removed.
        """
        for worktree in self.list():
            if worktree.folder != self._parent / worktree.name:
                continue
            if worktree.name.startswith(SUBAGENT_PREFIX) and worktree.lock is None:
                with suppress(WorktreeError), self._locked_parent():
                    self.remove(self.find(worktree.name))

    def uncommitted_files(self) -> Sequence[str]:
        """Return the changed and new files of this checkout, which a new worktree does not have."""
        return _changed_files(self._checkout)

    def empty_submodules(self, worktree: Worktree) -> Sequence[str]:
        """Return the submodules without files in a worktree."""
        if worktree.is_missing:
            return ()
        submodules = _submodules(self._inside(worktree))
        return [name for name in submodules if not _has_entries(worktree.folder / name)]

    def has_own_commits(self, worktree: Worktree) -> bool:
        """Return whether a worktree has commits that no other branch contains."""
        return not self._is_contained(worktree)

    def own_files(self, worktree: Worktree) -> Sequence[str]:
        """Return the files changed by commits of a worktree that no other branch contains."""
        others = (f"--exclude={worktree.branch}", "--branches") if worktree.branch else ()
        listed = self._checkout.ask(
            *("log", "-z", "--format=", "--name-only", "--no-ext-diff", worktree.commit),
            *("--not", *others, "--remotes"),
        )
        return sorted(set(_names(listed)))

    def state(self, worktree: Worktree) -> WorktreeState:
        """Return the work in a worktree that is nowhere else."""
        inside = None if worktree.is_missing else self._inside(worktree)
        files = () if inside is None else _changed_files(inside)
        counted = self._checkout.run("rev-list", "--count", f"HEAD..{worktree.commit}")
        commits = int(counted.output) if counted.code == 0 else 0
        unfinished = None if inside is None else find_unfinished(inside)
        empty = self.empty_submodules(worktree)
        return WorktreeState(files, commits, self._is_contained(worktree), unfinished, empty)

    def commit(self, worktree: Worktree, message: str) -> bool:
        """Commit all changes in a worktree; return False if there are none."""
        inside = self._inside(worktree)
        _refuse_unfinished(inside)
        if not _changed_files(inside):
            return False
        self._stage(inside)
        inside.ask("commit", "--quiet", "--no-verify", "--message", message)
        return True

    def _stage(self, checkout: Checkout) -> None:
        """Put all changes into the index.

        `git add` is not used, because it runs git in submodules with their configuration, and
        commands can create both.
        """
        removed: list[str] = []
        changed: list[str] = []
        for state, name in _status(checkout, untracked="all"):
            if state[1] == "D":
                removed.append(name)
            # A name that ends with a slash is another repository.
            elif state[1] != " " and not name.endswith("/"):
                changed.append(name)
        for option, names in (("--force-remove", removed), ("--add", changed)):
            if names:
                data = os.fsencode("".join(f"{name}\0" for name in names))
                checkout.ask("update-index", option, "-z", "--stdin", data=data)

    def merge(self, worktree: Worktree) -> MergeResult:
        """Merge the branch of a worktree into the branch that is checked out here.

        Files of a checkout with uncommitted changes are not touched, and a merge with conflicts is
        undone; both raise `WorktreeError`.
        """
        here = self._checkout
        if worktree.folder == here.folder:
            raise WorktreeError(t("a worktree cannot be merged into itself"))
        if (target := here.branch) is None:
            raise WorktreeError(t("no branch is checked out in {folder}", folder=here.folder))
        if worktree.branch is None:
            raise WorktreeError(
                t("no branch is checked out in {folder}", folder=worktree.folder),
                hint=t("merge it with git: its commit is {commit}", commit=worktree.commit[:12]),
            )
        if not worktree.is_missing:
            _refuse_changes(self._inside(worktree), untracked=True)
        _refuse_changes(here, untracked=False)
        before = here.ask("rev-parse", "HEAD")
        count = int(here.ask("rev-list", "--count", f"{before}..{worktree.commit}"))
        if count:
            # Use the commit, because the branch may move meanwhile.
            message = f"Merge branch '{worktree.branch}' into {target}"
            words = ("--no-edit", "--no-verify", "-m", message, worktree.commit)
            result = here.run("merge", *words)
            if result.code != 0:
                raise self._merge_failure(worktree, result)
        changed = here.ask("diff", "-z", "--name-only", "--no-ext-diff", before, "HEAD")
        return MergeResult(worktree.branch, target, count, _names(changed))

    def remove(self, worktree: Worktree) -> None:
        """Remove a worktree and Kore's branch for it, if nothing is lost.

        Ignored files are removed, too.
        """
        if worktree.folder == self._checkout.folder:
            raise WorktreeError(
                t("this conversation works in {folder}", folder=worktree.folder),
                hint=t("leave it first: /worktree leave"),
            )
        words: list[str] = []
        if not worktree.is_missing:
            inside = self._inside(worktree)
            _refuse_changes(inside, untracked=True)
            _refuse(inside, self._unrecorded_files(inside))
            if submodules := _submodules(inside):
                _refuse_submodules(inside, submodules)
                # Git removes no worktree with submodules otherwise, even if they are empty.
                words = ["--force"]
        if not self._is_contained(worktree):
            raise WorktreeError(
                t(
                    "kept: {folder} has commits that no other branch contains",
                    folder=worktree.folder,
                ),
                hint=t("merge it first: /worktree merge {name}", name=worktree.name),
            )
        self._checkout.ask("worktree", "remove", *words, str(worktree.folder))
        if worktree.branch is not None and worktree.branch.startswith(PREFIX):
            # Only if the branch still points to the checked commit.
            self._checkout.ask("update-ref", "-d", _HEADS + worktree.branch, worktree.commit)

    def _create(self, name: str) -> Worktree:
        folder, branch = self._parent / name, PREFIX + name
        if (worktree := self._existing(name)) is not None:
            if not worktree.is_unfinished:
                return worktree
            # Its creation was interrupted under this lock.
            self._refuse_work(worktree)
            self._checkout.ask("worktree", "remove", "--force", "--force", str(worktree.folder))
        if os.path.lexists(folder):
            raise WorktreeError(
                t("{folder} exists already and is not a worktree of this repository", folder=folder)
            )
        # Git remembers a folder that was deleted by hand.
        is_known = any(worktree.folder == folder for worktree in self.list())
        words = ["--force"] if is_known else []
        if self._checkout.commit_of(_HEADS + branch) is not None:
            words += [str(folder), branch]
        elif self._checkout.commit_of("HEAD") is not None:
            words += ["-b", branch, str(folder), "HEAD"]
        else:
            raise WorktreeError(
                t("{folder} has no commit yet", folder=self._checkout.folder),
                hint=t("make the first commit, then try again"),
            )
        self._checkout.ask("worktree", "add", *words)
        worktree = self._existing(name)
        assert worktree is not None, "git lists what it has just created"
        return replace(worktree, is_new=True)

    def _existing(self, name: str) -> Worktree | None:
        """Return the worktree in the folder of this name, or on Kore's branch of this name."""
        for worktree in self.list():
            is_named = worktree.folder == self._parent / name or worktree.branch == PREFIX + name
            if is_named and not worktree.is_missing:
                return worktree
        return None

    @contextmanager
    def _locked_parent(self) -> Iterator[None]:
        """Lock the folder for worktrees, creating it if needed, against other processes."""
        self._make_parent()
        with _exclusive(self._parent):
            yield

    def _make_parent(self) -> None:
        """Create the folder for worktrees, which is writable for the owner only."""
        try:
            self._parent.mkdir(parents=True, exist_ok=True)
            info = os.lstat(self._parent)
        except OSError as exc:
            raise WorktreeError(
                t("{folder} cannot be created: {reason}", folder=self._parent, reason=exc.strerror),
                hint=t("choose a folder for worktrees: agent.worktrees"),
            ) from exc
        is_own = stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid()
        if not is_own or info.st_mode & stat.S_IWOTH:
            raise WorktreeError(
                t("{folder} is a link, or other users can write to it", folder=self._parent)
            )

    def _inside(self, worktree: Worktree) -> Checkout:
        """Return the checkout of a worktree; the two must refer to each other."""
        store = find_outer_store(worktree.folder)
        if store is None or store.common != self._checkout.common:
            raise WorktreeError(
                t(
                    "{folder} and its repository do not name each other any more",
                    folder=worktree.folder,
                ),
                hint="git worktree repair",
            )
        here = self._checkout
        main = worktree.folder if here.is_bare else here.main
        checkout = Checkout(worktree.folder, store.own, main, here.common)
        check_state(checkout)
        return checkout

    def _refuse_work(self, worktree: Worktree) -> None:
        """Refuse an unfinished worktree with files that are not in its commit.

        A command can make any worktree look unfinished.
        """
        if set(os.listdir(worktree.folder)) <= {GIT}:
            return
        inside = self._inside(worktree)
        _refuse_unfinished(inside)
        # Git may have been stopped before it wrote the index, and have left an empty file.
        files = [n for n in self._unrecorded_files(inside) if not _is_empty(inside.folder / n)]
        _refuse(inside, files)

    def _unrecorded_files(self, checkout: Checkout) -> Sequence[str]:
        """Return the files whose content is not in the current commit.

        A command can make git's own index hide a change (`git update-index --assume-unchanged`).
        """
        with tempfile.TemporaryDirectory() as folder:
            fresh = replace(checkout, index=Path(folder).resolve() / "index")
            fresh.ask("read-tree", "HEAD")
            return [name for state, name in _status(fresh, untracked="normal") if state != " D"]

    def _is_contained(self, worktree: Worktree) -> bool:
        """Return whether another branch contains the commits of a worktree and of its branch."""
        own = _HEADS + (worktree.branch or "")
        is_removed = worktree.branch is not None and worktree.branch.startswith(PREFIX)
        refs = self._checkout.ask(
            *("for-each-ref", "--format=%(refname)", f"--contains={worktree.commit}"),
            *("refs/heads", "refs/remotes"),
        )
        # Not `splitlines`: names of branches may contain other line ends than git's.
        return any(ref != own or not is_removed for ref in refs.split("\n") if ref)

    def _merge_failure(self, worktree: Worktree, result: GitResult) -> WorktreeError:
        here = self._checkout
        unmerged = here.ask(
            *("diff", "-z", "--name-only", "--no-ext-diff", "--ignore-submodules=dirty"),
            "--diff-filter=U",
        )
        conflicts = _names(unmerged)
        if here.commit_of("MERGE_HEAD") is not None:
            here.ask("merge", "--abort")
        if not conflicts:
            return WorktreeError(failure_of("merge", result))
        return WorktreeError(
            t(
                "kept: {name} conflicts with {folder} in {files}; the merge was undone",
                name=worktree.name,
                folder=here.folder,
                files=list_files(conflicts),
            ),
            hint=t("merge {branch} in the worktree, then try again", branch=here.branch),
        )


@contextmanager
def _exclusive(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes that create or remove worktrees in it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _names(output: str) -> Sequence[str]:
    """Return the file names that git printed with `-z`, that is, without quoting."""
    return [name for name in output.split("\0") if name]


def _status(
    checkout: Checkout, *, untracked: Literal["no", "normal", "all"]
) -> list[tuple[str, str]]:
    """Return the two letters of `git status` for each changed file, and its name."""
    # Git in a submodule would read the configuration there, which a command may have written.
    status = checkout.ask(
        *("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=dirty"),
        f"--untracked-files={untracked}",
    )
    return [(entry[:2], entry[3:]) for entry in status.split("\0") if entry]


def _changed_files(checkout: Checkout, *, untracked: bool = True) -> Sequence[str]:
    return [name for _, name in _status(checkout, untracked="normal" if untracked else "no")]


def _refuse_changes(checkout: Checkout, *, untracked: bool) -> None:
    _refuse_unfinished(checkout)
    _refuse(checkout, _changed_files(checkout, untracked=untracked))


def _complete_entries(store: Path) -> None:
    """Write the link to the store into each entry that has none, because git was killed first.

    A running git writes the same text.
    """
    with suppress(OSError):
        for name in os.listdir(store / "worktrees"):
            with suppress(OSError), open_folder_beneath(store / "worktrees" / name) as entry:
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                descriptor = os.open("commondir", flags, 0o644, dir_fd=entry)
                with open(descriptor, "wb") as file:
                    if os.fstat(descriptor).st_size == 0:
                        file.write(b"../..\n")


def find_unfinished(checkout: Checkout) -> WorktreeError | None:
    """Return an error that says how to undo a merge, rebase or the like in progress, if any.

    A kill during a merge leaves one.
    """
    for name, way_out in _UNFINISHED.items():
        if os.path.lexists(checkout.store / name):
            return WorktreeError(
                t(
                    "a merge or rebase is in progress in {folder}: {files}",
                    folder=checkout.folder,
                    files=name,
                ),
                hint=t("complete it with git there, or undo it: {command}", command=way_out),
            )
    return None


def _refuse_unfinished(checkout: Checkout) -> None:
    if (unfinished := find_unfinished(checkout)) is not None:
        raise unfinished


def _refuse(checkout: Checkout, files: Sequence[str]) -> None:
    """Raise `WorktreeError` if there are changed files."""
    if files:
        raise WorktreeError(
            t(
                "{folder} has uncommitted changes: {files}",
                folder=checkout.folder,
                files=list_files(files),
            ),
            hint=t("commit them first; nothing was changed"),
        )


def _submodules(checkout: Checkout) -> Sequence[str]:
    """Return the folders of submodules in the index."""
    entries = checkout.ask("ls-files", "--stage", "-z").split("\0")
    return [entry.partition("\t")[2] for entry in entries if entry.startswith("160000 ")]


def _refuse_submodules(checkout: Checkout, submodules: Sequence[str]) -> None:
    """Raise `WorktreeError` if a submodule has files: whether its work is elsewhere is unknown.

    Git is not started in submodules.
    """
    if full := [name for name in submodules if _has_entries(checkout.folder / name)]:
        raise WorktreeError(
            t(
                "submodules have files in {folder}: {names}",
                folder=checkout.folder,
                names=list_files(full),
            ),
            hint=t(
                "if their work is elsewhere, run there: {command}",
                command="git submodule deinit --all",
            ),
        )


def _has_entries(folder: Path) -> bool:
    try:
        return any(folder.iterdir())
    except FileNotFoundError:
        return False


def _is_empty(path: Path) -> bool:
    try:
        return os.lstat(path).st_size == 0
    except OSError:
        return False


def check_name(name: str) -> None:
    """Raise `WorktreeError` unless the name is a single, plain word."""
    if not _NAME.fullmatch(name) or name.endswith((".", ".lock")) or name in (LEAVE, *ACTIONS):
        raise WorktreeError(
            t("{name} is not a name for a worktree", name=repr(name[:80])),
            hint=t("letters, digits, dots, hyphens and underscores, such as fix-login"),
        )


def list_files(files: Sequence[str]) -> str:
    """Return the first few files, and the number of the others."""
    names = ", ".join(escape_line(file) for file in files[:_MAX_FILES])
    more = len(files) - _MAX_FILES
    return t("{files} and {n:,} more", files=names, n=more) if more > 0 else names
