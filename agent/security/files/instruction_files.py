"""Detection of files that influence later turns or that other programs execute."""

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path

from agent.security.files.paths import normalize_filename

# Instructions of a project; in each folder, the first existing file is used.
PROJECT_INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md")
PROMPT_FILES = frozenset(
    {"identity.md", "agent.md", "soul.md", "user.md", *map(str.lower, PROJECT_INSTRUCTIONS)}
)
PROMPT_FOLDERS = frozenset({"memory", "skills", ".kore", ".claude", ".kode", ".agents"})
# Configuration at any depth: files that programs execute when a person opens the folder, uses git
# in it or logs in, and configuration of agents, both Kore and others.
CONFIGURATIONS = frozenset(
    {".vscode", ".idea", ".envrc", ".gitconfig", ".husky", ".githooks", ".mcp.json", ".mcprc"}
    | {".kode.json", ".kore", ".kode", ".kodax", ".claude", ".claude.json", ".agents"}
    | {".codex", ".cursor"}
    | {".gemini", ".windsurf", ".continue", ".aider.conf.yml", ".opencode", ".roo", ".zed"}
    | {".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile"}
    | {".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc"}
    | {".login", ".logout", ".inputrc", ".vimrc", ".exrc", ".nvimrc", ".emacs", ".dir-locals.el"}
)
# The plan of a long session is in one of these folders but is not an instruction: it is read back
# as a text of this folder, like the checklist and the progress file next to it.
SESSION_PLANS = frozenset({".kore/session_plan.md", ".kodax/session_plan.md"})
GIT = ".git"
# Files of a store that git executes or that tell git what to execute. Submodules and additional
# worktrees have the same files further down.
GIT_CONTROL_FILES = frozenset({"hooks", "config", "config.worktree", "commondir"})
# In the state folder of a worktree; `gitdir` refers to the worktree.
WORKTREE_FILES = GIT_CONTROL_FILES | {"gitdir"}
GIT_FILES = GIT_CONTROL_FILES | {"modules", "worktrees"}
# Names of new files that build tools, test runners and package managers run automatically. Names
# that begin with a dot need no entry.
SELF_RUNNING = frozenset(
    {"conftest.py", "sitecustomize.py", "usercustomize.py", "setup.py", "noxfile.py"}
    | {"pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"}
    | {"makefile", "gnumakefile", "justfile", "taskfile.yml", "taskfile.yaml", "rakefile"}
    | {"gemfile", "package.json", "gruntfile.js", "gulpfile.js", "build.rs", "build.gradle"}
    | {"build.gradle.kts", "jenkinsfile", "vagrantfile", "lefthook.yml", "lefthook.yaml"}
    | {"mise.toml", "compose.yaml", "compose.yml", "docker-compose.yml"}
)
# Turns that start without a request act on this file, and may change it.
_HEARTBEAT = "heartbeat.md"
_NAMES = PROMPT_FILES | PROMPT_FOLDERS
_PROJECT_INSTRUCTIONS = frozenset(map(str.lower, PROJECT_INSTRUCTIONS))
_PATTERN = frozenset("*?[{")


def is_instruction_file(path: str, root: str) -> bool:
    """Return whether a path steers turns of the workspace `root`; both are normal and absolute."""
    if path.removeprefix(root.rstrip("/") + "/") in SESSION_PLANS:
        return False
    first, single = _first(path, root)
    return (
        first in PROMPT_FOLDERS
        or (single and first in PROMPT_FILES)
        or (bool(first) and is_project_instructions(os.path.basename(path)))
        or _configures(path, root)
    )


def is_project_instructions(name: str) -> bool:
    """Return whether a file of this name, at any depth, contains instructions of a project."""
    return normalize_filename(name) in _PROJECT_INSTRUCTIONS


def linked_instructions(link: Path, top: Path) -> Path | None:
    """Return the real path of the AGENTS.md or CLAUDE.md below `top` that a link leads to, or None.

    Open the path without following links: the link may change in the meantime.
    """
    if not link.is_symlink():
        return None
    try:
        target = Path(os.path.realpath(link))
    except OSError:
        return None
    return target if target.name in PROJECT_INSTRUCTIONS and target.is_relative_to(top) else None


def is_self_running(path: str, root: str) -> bool:
    """Return whether other programs may run or read a new file automatically.

    True if its name or the name of a folder below the workspace `root` begins with a dot, or if its
    name is in the list. Both paths are normal and absolute.
    """
    inside = path.removeprefix(root.rstrip("/") + "/")
    if inside in SESSION_PLANS:
        return False
    # Outside the workspace, the call did not choose the folders.
    parts = inside.split("/") if inside != path else [os.path.basename(path)]
    return any(map(_is_hidden, parts)) or normalize_filename(parts[-1]) in SELF_RUNNING


def _is_hidden(part: str) -> bool:
    # Go uses `./...` as a package pattern.
    return part.startswith(".") and part.strip(".") != ""


def is_planted(path: str, root: str) -> bool:
    """Return whether a path is HEARTBEAT.md, on which Kore acts without a request."""
    return _first(path, root) == (_HEARTBEAT, True)


def may_steer(word: str, folders: Iterable[str], root: str) -> bool:
    """Return whether a word of a command may name such a file, literally or as a pattern."""
    if not word or "\0" in word:
        return False
    is_pattern = not _PATTERN.isdisjoint(word)
    if (
        not is_pattern
        and "/" not in word
        and word[0] != "."
        and normalize_filename(word) not in _NAMES
    ):
        return any(is_instruction_file(folder, root) for folder in folders)
    for folder in folders:
        path = os.path.normpath(os.path.join(folder, word))
        if is_instruction_file(path, root):
            return True
        if is_pattern and any(map(_may_configure, path.split("/"))):
            return True
        if is_pattern:
            first, single = _first(path, root)
            names = PROMPT_FOLDERS | PROMPT_FILES if single else PROMPT_FOLDERS
            # Braces are not expanded here; they may contain anything.
            if "{" in first or any(fnmatchcase(name, first) for name in names):
                return True
    return False


def _configures(path: str, root: str) -> bool:
    """Return whether a component below the root, or a pair of git's, names a configuration."""
    prefix = root.rstrip("/") + "/"
    if "." not in path or not path.startswith(prefix):
        return False
    parts = [normalize_filename(part) for part in path[len(prefix) :].split("/")]
    return not CONFIGURATIONS.isdisjoint(parts) or any(
        folder == GIT and other in GIT_FILES for folder, other in pairwise(parts)
    )


def _may_configure(part: str) -> bool:
    """Return whether a pattern may match a configuration; only a dot matches a leading dot."""
    if part[:1] != "." or _PATTERN.isdisjoint(part):
        return False
    return any(fnmatchcase(name, normalize_filename(part)) for name in CONFIGURATIONS)


def _first(path: str, root: str) -> tuple[str, bool]:
    """Return the first name below the root, normalized, and whether it is the whole path."""
    prefix = root.rstrip("/") + "/"
    if not path.startswith(prefix):
        return "", False
    first, slash, _ = path[len(prefix) :].partition("/")
    return normalize_filename(first), not slash
