"""State of a project's repository: branches, newest commits and changed files.

Git may run programs that a repository configures. Therefore it runs only in the sandbox for
commands, which can read the repository and has no network access. Without a sandbox, only the
branch is reported, as read from a file.
"""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.context.project.instructions import project_folders
from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.folder_identity import FolderIdentity
from agent.security.files.git_layout import OuterStore, find_outer_store
from agent.security.files.safe_open import read_regular
from agent.security.sandbox.base import Sandbox, SandboxCommand, ShowsFolders, StoreMount
from agent.security.taint.file_marks import is_marked, is_name_marked

_TIMEOUT_S = 2
_HEAD_LIMIT_BYTES = 1_000
_BRANCH = "ref: refs/heads/"
# Git accepts sentences as names; other branch names are shown only to people.
_BRANCH_NAME = re.compile(r"[A-Za-z0-9._/-]{1,100}")
_COMMIT = re.compile(r"[0-9a-f]{40,64}")
_MAX_COMMITS = 3
_MAX_FILES = 10
_MAX_REFERENCES = 5_000
_MAX_SUBJECT_CHARS = 72
_MAX_PATH_CHARS = 120
# Room for 100,000 changed files of usual length.
_MAX_OUTPUT_BYTES = 5_000_000
# Conventional names of the main branch, used if no remote names it.
MAIN_BRANCHES = ("main", "master")
REMOTE_HEAD = "refs/remotes/origin/HEAD"
_VARIABLES = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


@frozen
class GitFacts:
    """Facts from git; `changed_files` are relative to the top of the repository."""

    main_branch: str
    commits: Sequence[str]
    changed_files: Sequence[str]


@frozen
class RepositoryNote:
    """Sentence about a repository for the model; `is_marked` if untrusted text may be in it."""

    text: str
    is_marked: bool


def describe_repository(
    root: Path, choose_sandbox: Callable[[], Sandbox | None]
) -> RepositoryNote | None:
    """Return a sentence for the model, or None outside of a repository. May block briefly."""
    place = find_repository(root)
    branch = _read_branch(place.own / "HEAD") if place is not None else None
    if place is None or branch is None:
        return None
    facts = _ask_git(root.resolve(), place, choose_sandbox())
    # Read last: a command may write while git reads.
    is_marked = _is_marked(place)
    if facts is None:
        return RepositoryNote(render_prompt("project_git_branch", branch=branch), is_marked)
    text = render_prompt(
        "project_git",
        branch=branch,
        main=facts.main_branch or "unknown",
        commits="; ".join(facts.commits) or "none",
        changes=_list_files(facts.changed_files),
    )
    names = (place.top / file for file in facts.changed_files[:_MAX_FILES])
    return RepositoryNote(text, is_marked or any(_has_marked_name(name) for name in names))


def _is_marked(place: "Repository") -> bool:
    """Return whether a command with untrusted text may have moved a branch or made a commit.

    A new commit also changes a reference.
    """
    files = [place.own / "HEAD", place.own / "logs" / "HEAD", place.common / "packed-refs"]
    for folder in (place.common / "refs", place.own / "refs"):
        for parent, _, names in os.walk(folder):
            files += [Path(parent, name) for name in names]
            if len(files) > _MAX_REFERENCES:
                return True
    return any(is_marked(file) for file in files if os.path.lexists(file))


def _has_marked_name(path: Path) -> bool:
    # Only git knows about a deleted file.
    return os.path.lexists(path) and is_name_marked(path)


@frozen
class Repository(OuterStore):
    """Store of a repository whose top folder is `top`."""

    top: Path
    is_outer: bool


def find_repository(root: Path) -> Repository | None:
    """Return the repository around a folder, or None; that of the home folder does not count."""
    folders = project_folders(root.resolve(), Path.home())
    if not folders:
        return None
    top = folders[-1]
    store = top / ".git"
    if store.is_dir() and not store.is_symlink():
        return Repository(store, store, top, is_outer=False)
    outer = find_outer_store(top)
    return None if outer is None else Repository(outer.own, outer.common, top, is_outer=True)


def _read_branch(head: Path) -> str | None:
    """Return the current branch or commit, or None if the file is invalid."""
    try:
        data = read_regular(head, _HEAD_LIMIT_BYTES, follow_links=False)
    except OSError:
        return None
    text = data.decode("utf-8", "replace").strip()
    if text.startswith(_BRANCH):
        name = text.removeprefix(_BRANCH)
        return f"branch {name}" if _BRANCH_NAME.fullmatch(name) else "a branch with a longer name"
    return f"no branch, at commit {text[:12]}" if _COMMIT.fullmatch(text) else None


def _ask_git(root: Path, place: Repository, sandbox: Sandbox | None) -> GitFacts | None:
    """Return the facts, or None without a suitable sandbox."""
    if sandbox is None or not sandbox.confines or not isinstance(sandbox, ShowsFolders):
        return None
    from agent.security.sandbox.brief_run import run_briefly

    output = bytearray()

    def add(data: bytes) -> None:
        if len(output) <= _MAX_OUTPUT_BYTES:
            output.extend(data)

    try:
        store = _mount(place.common) if place.is_outer else None
        job = SandboxCommand(
            _script(), root, place.top, store=store, read_only=True, variables=_VARIABLES
        )
        with sandbox.prepare(job) as spawn:
            code = run_briefly(spawn, _TIMEOUT_S, add)
    except (OSError, ToolError):
        return None
    parts = bytes(output).decode("utf-8", "replace").split("\0", 2)
    if code != 0 or len(parts) != 3:
        return None
    refs, commits, status = parts
    return GitFacts(
        _main_branch(refs.splitlines()),
        [_printable(line, _MAX_SUBJECT_CHARS) for line in commits.splitlines()],
        # Each entry consists of two letters for the kind of change, a space and the path.
        [entry[3:] for entry in status.split("\0") if entry],
    )


def _script() -> str:
    """Return a script that prints branches, commits and changed files, separated by NUL."""
    refs = (REMOTE_HEAD, *(f"refs/heads/{name}" for name in MAIN_BRANCHES))
    return render_prompt("project_git_script", refs=" ".join(refs), commits=_MAX_COMMITS)


def _mount(store: Path) -> StoreMount:
    return StoreMount(FolderIdentity.of(store), read_only_paths=(store,), writable_folders=())


def _main_branch(refs: Sequence[str]) -> str:
    """Return the branch that the remote names, else one with a conventional name, else ''."""
    targets = dict(line.partition(" ")[::2] for line in refs)
    remote = targets.get(REMOTE_HEAD, "").removeprefix("refs/remotes/origin/")
    if _BRANCH_NAME.fullmatch(remote):
        return remote
    return next((name for name in MAIN_BRANCHES if f"refs/heads/{name}" in targets), "")


def _list_files(files: Sequence[str]) -> str:
    if not files:
        return "none"
    names = ", ".join(_printable(file, _MAX_PATH_CHARS) for file in files[:_MAX_FILES])
    hidden = len(files) - _MAX_FILES
    return f"{names} and {hidden} more" if hidden > 0 else names


def _printable(text: str, limit: int) -> str:
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
