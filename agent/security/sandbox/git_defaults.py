"""The person's git settings, as data for commands in a sandbox.

Commands see neither the person's home folder nor /etc/gitconfig: both can name programs, helpers
and files. Git itself reads them outside of the sandbox, and the sandbox shows a configuration with
the values of a few settings instead.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from agent.records import frozen
from agent.security.sandbox.trusted_programs import SYSTEM_PATH, find_trusted_program

_COPIED = frozenset(
    {"user.name", "user.email", "init.defaultbranch", "core.autocrlf", "core.eol", "core.safecrlf"}
    | {"pull.rebase", "pull.ff", "push.default", "merge.conflictstyle", "diff.algorithm"}
    | {"safe.directory"}
)
# For root's sandbox, which shows other owners and inodes than git's index records: without these,
# git would read every file again.
_OTHER_OWNERS = (("core.checkstat", "minimal"), ("core.trustctime", "false"))
_TIMEOUT_S = 2
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\b": "\\b"})


@frozen
class GitDefaults:
    """Values of settings, in order.

    The files that settings name (excludes, commit template) are not copied: a command may have
    changed which file that is, and the next one would see any file of the person.
    """

    values: tuple[tuple[str, str], ...] = ()

    def variables(self, folder: str) -> dict[str, str]:
        """Return the variables that make git read `folder/config` as the system's configuration.

        That of a repository and of the command's own home takes precedence.
        """
        if not self.values:
            return {}
        return {"GIT_CONFIG_SYSTEM": f"{folder}/config", "GIT_CONFIG_NOSYSTEM": "0"}

    def files(self, folder: str) -> dict[str, bytes]:
        """Return the file to show in `folder` by its path; none without values."""
        if not self.values:
            return {}
        text = "".join(_entry(key, value) for key, value in self.values)
        return {f"{folder}/config": text.encode("utf-8", "surrogateescape")}


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
    for scope in ("--system", "--global"):
        for key, value in _list(program, scope, folder, environ):
            listed.setdefault(key, []).append(value)
    # Git reads every safe.directory, and the last value of the others.
    values = [
        (key, value)
        for key, texts in listed.items()
        if key in _COPIED
        for value in (texts if key == "safe.directory" else texts[-1:])
    ]
    return GitDefaults((*_OTHER_OWNERS, *values) if os.geteuid() == 0 else tuple(values))


def _list(
    program: str, scope: str, folder: Path | None, environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    command = [program, "config", scope, "--includes", "--null", "--list"]
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
    for entry in ran.stdout.decode("utf-8", "surrogateescape").split("\0"):
        key, newline, value = entry.partition("\n")
        if newline and "\r" not in value:
            yield key, value


def _entry(key: str, value: str) -> str:
    """Return a setting as a line of a configuration file; all keys have one dot."""
    section, name = key.split(".")
    return f'[{section}]\n\t{name} = "{value.translate(_ESCAPES)}"\n'
