"""The person's git settings, as data for commands in a sandbox.

Commands see neither the person's home folder nor /etc/gitconfig, because both can name programs,
helpers and files. Git reads them outside of the sandbox, and commands get a configuration file with
a few of the values.
"""

import os
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.records import frozen
from agent.security.files.safe_open import open_folder_beneath
from agent.security.sandbox.trusted_programs import SYSTEM_PATH, find_trusted_program

_COPIED = frozenset(
    {"user.name", "user.email", "init.defaultbranch", "core.autocrlf", "core.eol", "core.safecrlf"}
    | {"pull.rebase", "pull.ff", "push.default", "merge.conflictstyle", "diff.algorithm"}
    | {"safe.directory"}
)
# For root's sandbox, which shows other owners and inodes than git's index records: without these,
# git would read every file again.
_OTHER_OWNERS = (("core.checkstat", "minimal"), ("core.trustctime", "false"))
_EXCLUDES = "core.excludesfile"
_MAX_EXCLUDES_BYTES = 65_536
_TIMEOUT_S = 2
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\b": "\\b"})


@frozen
class GitDefaults:
    """Values of settings, in order, and the patterns of files that git ignores everywhere."""

    values: tuple[tuple[str, str], ...] = ()
    excludes: bytes = b""

    def variables(self, folder: str) -> dict[str, str]:
        """Return the variables that make git read `folder/config` as the system's configuration.

        The configurations of the repository and of the command's own home take precedence.
        """
        if not (self.values or self.excludes):
            return {}
        return {"GIT_CONFIG_SYSTEM": f"{folder}/config", "GIT_CONFIG_NOSYSTEM": "0"}

    def files(self, folder: str) -> dict[str, bytes]:
        """Return the files to show in `folder` by their paths; none without settings."""
        values, files = self.values, {}
        if self.excludes:
            path = f"{folder}/excludes"
            values, files = (*values, (_EXCLUDES, path)), {path: self.excludes}
        if not values:
            return {}
        text = "".join(_entry(key, value) for key, value in values)
        return {f"{folder}/config": text.encode("utf-8", "surrogateescape"), **files}


def read_git_defaults(folder: Path | None) -> GitDefaults:
    """Return the settings of this user and the machine; none without git, or if it fails.

    Conditions such as `includeIf "gitdir:…"` are judged for `folder`. May block.
    """
    program = find_trusted_program("git", path=SYSTEM_PATH)
    if program is None:
        return GitDefaults()
    inherited = ("HOME", "XDG_CONFIG_HOME")
    environ = {name: os.environ[name] for name in inherited if name in os.environ}
    listed: dict[str, list[str]] = {}
    origin = ""
    for scope in ("--system", "--global"):
        for source, key, value in _list(program, scope, folder, environ):
            listed.setdefault(key, []).append(value)
            origin = source if key == _EXCLUDES else origin
    # Git reads every safe.directory, and the last value of the others.
    values = [
        (key, value)
        for key, texts in listed.items()
        if key in _COPIED
        for value in (texts if key == "safe.directory" else texts[-1:])
    ]
    excludes = _read_excludes(listed.get(_EXCLUDES, []), origin, environ)
    own = _OTHER_OWNERS if os.geteuid() == 0 else ()
    return GitDefaults((*own, *values), excludes)


def _read_excludes(values: list[str], origin: str, environ: Mapping[str, str]) -> bytes:
    """Return the patterns from the file of the last value, or git's default file; b"" if unknown.

    Commands see the contents, so no command may choose the file: only the main files of this user
    and the machine count, not included files, and no path with a link, which may lead through a
    workspace.
    """
    home = environ.get("HOME", "")
    settings = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    path = f"{settings}/git/ignore"
    if values:
        main_files = {"/etc/gitconfig", f"{home}/.gitconfig", f"{settings}/git/config"}
        if origin not in main_files or os.path.realpath(origin) != origin:
            return b""
        path = f"{home}/{values[-1][2:]}" if values[-1].startswith("~/") else values[-1]
    file = Path(os.path.normpath(path))
    if not file.is_absolute():
        return b""
    try:
        with open_folder_beneath(file.parent) as folder:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(file.name, flags, dir_fd=folder)
    except OSError:
        return b""
    with open(descriptor, "rb") as opened:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode) or info.st_uid not in (0, os.geteuid()):
            return b""
        data = opened.read(_MAX_EXCLUDES_BYTES + 1)
    return data if len(data) <= _MAX_EXCLUDES_BYTES else b""


def _list(
    program: str, scope: str, folder: Path | None, environ: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the file, the key and the value of each setting."""
    command = [program, "config", scope, "--includes", "--null", "--show-origin", "--list"]
    try:
        ran = subprocess.run(
            command,
            cwd=folder or "/",
            env={"PATH": SYSTEM_PATH, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return
    entries = iter(ran.stdout.decode("utf-8", "surrogateescape").split("\0"))
    for origin, entry in zip(entries, entries, strict=False):
        key, newline, value = entry.partition("\n")
        if newline and "\r" not in value:
            yield origin.removeprefix("file:"), key, value


def _entry(key: str, value: str) -> str:
    """Return a setting as a line of a configuration file; all keys have one dot."""
    section, name = key.split(".")
    return f'[{section}]\n\t{name} = "{value.translate(_ESCAPES)}"\n'
