"""Detection of repositories whose configuration names no program.

Git runs programs that a repository's configuration names, and new versions add keys for them.
Instead of searching for such keys, Kore accepts a file only if each line has the form that `git
init`, `git clone` and ordinary settings write, with a key and a value listed here.
"""

import os
import re
from pathlib import Path

from agent.security.files.git_layout import resembles_store
from agent.security.files.safe_open import read_regular

MAX_BYTES = 65_536

# Patterns are compiled on first use, by the first git command.
_SECTION = r'\[([A-Za-z0-9-]+)(?: "([^"\\\x00-\x1f\x7f]*)")?\][ \t]*'
_ENTRY = r'[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*=[ \t]*([^"\\#;\x00-\x1f\x7f]*)'
_COMMENT = r"[ \t]*(?:[#;][^\x00-\x08\x0a-\x1f\x7f]*)?"

_BOOLEAN = r"true|false|yes|no|on|off|0|1"
_FALSE = r"false|no|off|0"
_NUMBER = r"\d{1,9}"
_WORD = r"[A-Za-z][A-Za-z-]*"
_NAME = r"[\w.@+/-]*"
_TEXT = r".*"
_REFERENCE = r"refs/[\w.@+/-]+"
_REFERENCES = r"[+^]?refs/[\w.@+/*-]+(?::refs/[\w.@+/*-]+)?"
# Neither an option nor the `NAME::` of a remote helper.
_ADDRESS = r"(?:(?:https?|ssh|git|file)://|[\w.-]+@[\w.-]+:|/)(?!:)(?:(?!::)[^\s])*"

# `*` matches any subsection name.
_PLAIN_VALUES = {
    "core.repositoryformatversion": _NUMBER,
    **dict.fromkeys(
        ("core.filemode", "core.bare", "core.ignorecase", "core.precomposeunicode"), _BOOLEAN
    ),
    **dict.fromkeys(
        ("core.symlinks", "core.quotepath", "core.longpaths", "core.trustctime"), _BOOLEAN
    ),
    **dict.fromkeys(("core.logallrefupdates", "core.autocrlf", "core.eol"), _WORD),
    **dict.fromkeys(("core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse"), _BOOLEAN),
    "extensions.objectformat": r"sha1|sha256",
    "extensions.refstorage": r"files|reftable",
    "init.defaultbranch": _NAME,
    "user.name": _TEXT,
    "user.email": _TEXT,
    "remote.*.url": _ADDRESS,
    "remote.*.pushurl": _ADDRESS,
    "remote.*.fetch": _REFERENCES,
    "remote.*.push": _REFERENCES,
    "remote.*.prune": _BOOLEAN,
    "remote.*.mirror": _BOOLEAN,
    "remote.*.tagopt": r"--tags|--no-tags",
    "remote.*.gh-resolved": _NAME,
    "branch.*.remote": _NAME,
    "branch.*.merge": _REFERENCE,
    "branch.*.rebase": _WORD,
    "branch.*.vscode-merge-base": _NAME,
    "commit.gpgsign": _FALSE,
    "tag.gpgsign": _FALSE,
    "fetch.prune": _BOOLEAN,
    "pull.rebase": _WORD,
    "pull.ff": _WORD,
    "push.default": _WORD,
    "push.autosetupremote": _BOOLEAN,
    "rerere.enabled": _BOOLEAN,
    "gc.auto": _NUMBER,
    "color.ui": _WORD,
    "advice.detachedhead": _BOOLEAN,
    "lfs.repositoryformatversion": _NUMBER,
}


def is_safe_repository(folder: str, root: str) -> bool:
    """Return whether git in `folder` below `root` runs no program that a repository names.

    False for a repository that has other configuration or submodules or stores its data elsewhere,
    and for a bare repository, which ordinary files could imitate. Both paths are real.
    """
    while folder == root or folder.startswith(root + "/"):
        if resembles_store(Path(folder)):
            return False
        git = f"{folder}/.git"
        if os.path.lexists(git):
            return _is_safe_store(git)
        folder = os.path.dirname(folder)
    return True


def is_in_bare_repository(folder: str, root: str) -> bool:
    """Return whether git may treat `folder`, or a parent up to `root`, as a bare repository.

    Ordinary files can form a bare repository with a configuration that names programs. Both paths
    are real.
    """
    while folder == root or folder.startswith(root + "/"):
        if resembles_store(Path(folder)):
            return True
        folder = os.path.dirname(folder)
    return False


def is_plain_configuration(path: str | Path) -> bool:
    """Return whether a configuration file contains only listed keys with listed values.

    True for a missing file; false for a link or anything else that is not a regular file.
    """
    try:
        data = read_regular(path, MAX_BYTES + 1, follow_links=False)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return len(data) <= MAX_BYTES and is_plain_text(data)


def is_plain_text(data: bytes) -> bool:
    """Return whether each line is empty, a comment, a section or a listed key and value."""
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return False
    prefix = ""
    for line in lines:
        if re.fullmatch(_COMMENT, line):
            continue
        if (section := re.fullmatch(_SECTION, line)) is not None:
            prefix = section[1].lower() + (".*." if section[2] is not None else ".")
            continue
        entry = re.fullmatch(_ENTRY, line)
        pattern = _PLAIN_VALUES.get(prefix + entry[1].lower()) if entry is not None else None
        if entry is None or pattern is None or not re.fullmatch(pattern, entry[2].rstrip(" \t")):
            return False
    return True


def _is_safe_store(git: str) -> bool:
    if os.path.islink(git) or not os.path.isdir(git):
        return False
    if any(
        os.path.lexists(f"{git}/{name}") for name in ("modules", "config.worktree", "commondir")
    ):
        return False
    return is_plain_configuration(f"{git}/config")
