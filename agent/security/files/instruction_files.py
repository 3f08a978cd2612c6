"""The files that steer: later turns read them, or other programs run what stands in them."""

import os
from collections.abc import Iterable
from fnmatch import fnmatchcase
from itertools import pairwise

from agent.security.files.filenames import normalize_filename

PROMPT_FILES = frozenset(
    {"identity.md", "agent.md", "soul.md", "user.md", "agents.md", "claude.md"}
)
PROMPT_FOLDERS = frozenset({"memory", "skills", ".kore", ".claude", ".kode", ".agents"})
# At any depth: programs run what these say as soon as a person opens the folder, uses git in it or
# logs in; and what agents, of this program and others, take for their configuration.
CONFIGURATIONS = frozenset(
    {".vscode", ".idea", ".envrc", ".gitconfig", ".husky", ".githooks", ".mcp.json", ".mcprc"}
    | {".kode.json", ".kore", ".kode", ".kodax", ".claude", ".claude.json", ".agents"}
    | {".codex", ".cursor"}
    | {".gemini", ".windsurf", ".continue", ".aider.conf.yml", ".opencode", ".roo", ".zed"}
    | {".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile"}
    | {".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc"}
    | {".login", ".logout", ".inputrc", ".vimrc", ".exrc", ".nvimrc", ".emacs", ".dir-locals.el"}
)
# The plan of long work lies among them and is none: it is read back as what it is, a text of this
# folder, like the checklist and the progress beside it.
SESSION_PLANS = frozenset({".kore/session_plan.md", ".kodax/session_plan.md"})
GIT = ".git"
# What git runs, or is told to run; of submodules and further worktrees the same lies further down.
GIT_FILES = frozenset({"hooks", "config", "config.worktree", "commondir", "modules", "worktrees"})
# Names of new files that build tools, test runners and package managers run by themselves. Names
# that begin with a dot need no list.
SELF_RUNNING = frozenset(
    {"conftest.py", "sitecustomize.py", "usercustomize.py", "setup.py", "noxfile.py"}
    | {"pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml"}
    | {"makefile", "gnumakefile", "justfile", "taskfile.yml", "taskfile.yaml", "rakefile"}
    | {"gemfile", "package.json", "gruntfile.js", "gulpfile.js", "build.rs", "build.gradle"}
    | {"build.gradle.kts", "jenkinsfile", "vagrantfile", "lefthook.yml", "lefthook.yaml"}
    | {"mise.toml", "compose.yaml", "compose.yml", "docker-compose.yml"}
)
# What it says is done by turns that start without a request; they change it themselves.
_HEARTBEAT = "heartbeat.md"
_NAMES = PROMPT_FILES | PROMPT_FOLDERS
_PATTERN = frozenset("*?[{")


def is_instruction_file(path: str, root: str) -> bool:
    """Whether a path is such a file of the workspace `root`; both are normal and absolute."""
    if path.removeprefix(root.rstrip("/") + "/") in SESSION_PLANS:
        return False
    first, single = _first(path, root)
    return first in PROMPT_FOLDERS or (single and first in PROMPT_FILES) or _configures(path, root)


def is_self_running(path: str, root: str) -> bool:
    """Return whether other programs may run or read a new file by themselves: its name, or that of
    a folder below the workspace `root`, begins with a dot, or is known for it. Both paths are
    normal and absolute."""
    inside = path.removeprefix(root.rstrip("/") + "/")
    if inside in SESSION_PLANS:
        return False
    # Elsewhere the folders are not the call's.
    parts = inside.split("/") if inside != path else [os.path.basename(path)]
    return any(map(_is_hidden, parts)) or normalize_filename(parts[-1]) in SELF_RUNNING


def _is_hidden(part: str) -> bool:
    # `./...` names packages of Go.
    return part.startswith(".") and part.strip(".") != ""


def is_planted(path: str, root: str) -> bool:
    """Whether a path is HEARTBEAT.md, which is acted on unasked."""
    return _first(path, root) == (_HEARTBEAT, True)


def may_steer(word: str, folders: Iterable[str], root: str) -> bool:
    """Whether a word of a command could name such a file, or stand for one as a pattern."""
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
            # Braces are not expanded here; what they hold could be anything.
            if "{" in first or any(fnmatchcase(name, first) for name in names):
                return True
    return False


def _configures(path: str, root: str) -> bool:
    """Whether a component below the root, or two of git's, name a configuration."""
    prefix = root.rstrip("/") + "/"
    if "." not in path or not path.startswith(prefix):
        return False
    parts = [normalize_filename(part) for part in path[len(prefix) :].split("/")]
    return not CONFIGURATIONS.isdisjoint(parts) or any(
        one == GIT and other in GIT_FILES for one, other in pairwise(parts)
    )


def _may_configure(part: str) -> bool:
    """Whether a component of a pattern may stand for one; only a dot stands for a leading dot."""
    if part[:1] != "." or _PATTERN.isdisjoint(part):
        return False
    return any(fnmatchcase(name, normalize_filename(part)) for name in CONFIGURATIONS)


def _first(path: str, root: str) -> tuple[str, bool]:
    """The first name below the root, folded, and whether there is nothing behind it."""
    prefix = root.rstrip("/") + "/"
    if not path.startswith(prefix):
        return "", False
    first, slash, _ = path[len(prefix) :].partition("/")
    return normalize_filename(first), not slash
