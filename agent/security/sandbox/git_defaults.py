"""The person's git settings, as data for commands in a sandbox.

Commands see neither the person's home folder nor /etc/gitconfig: both can name programs, helpers
and files. Git itself reads them outside of the sandbox, and the sandbox shows a configuration with
the values of a few settings instead.
"""

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from agent.records import frozen
from agent.security.files.safe_open import read_regular
from agent.security.sandbox.trusted_programs import SYSTEM_PATH, find_trusted_program

_COPIED = frozenset(
    {"user.name", "user.email", "init.defaultbranch", "core.autocrlf", "core.eol", "core.safecrlf"}
    | {"pull.rebase", "pull.ff", "push.default", "merge.conflictstyle", "diff.algorithm"}
    | {"safe.directory"}
)
# Settings that name a file, whose text is shown instead.
_EXCLUDES, _TEMPLATE = "core.excludesfile", "commit.template"
_FILES = {_EXCLUDES: "ignore", _TEMPLATE: "message"}
_MAX_FILE_BYTES = 100_000
_TIMEOUT_S = 5
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\b": "\\b"})


@frozen
class GitDefaults:
    """Values of settings in order, and the text of the files that settings name."""

    values: tuple[tuple[str, str], ...] = ()
    text_by_setting: Mapping[str, bytes] = field(default_factory=dict)

    def variables(self, folder: str) -> dict[str, str]:
        """Return the variables that make git read the files as the system's configuration.

        That of a repository and of the command's own home takes precedence.
        """
        if not self.files(folder):
            return {}
        return {"GIT_CONFIG_SYSTEM": f"{folder}/config", "GIT_CONFIG_NOSYSTEM": "0"}

    def files(self, folder: str) -> dict[str, bytes]:
        """Return the files to show in `folder`, by path; `folder/config` is the configuration."""
        if not self.values and not self.text_by_setting:
            return {}
        paths = {key: f"{folder}/{_FILES[key]}" for key in self.text_by_setting}
        lines = [_entry(key, value) for key, value in (*self.values, *paths.items())]
        texts = {paths[key]: text for key, text in self.text_by_setting.items()}
        config = "".join(lines).encode("utf-8", "surrogateescape")
        return {f"{folder}/config": config, **texts}


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
    config_home = environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    paths = {_EXCLUDES: f"{config_home}/git/ignore"}
    paths |= {key: listed[key][-1] for key in _FILES if key in listed}
    texts = {key: _read_file(path) for key, path in paths.items()}
    return GitDefaults(
        tuple(values), {key: text for key, text in texts.items() if text is not None}
    )


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


def _read_file(path: str) -> bytes | None:
    try:
        return read_regular(os.path.expanduser(path), _MAX_FILE_BYTES)
    except OSError:
        return None


def _entry(key: str, value: str) -> str:
    """Return a setting as a line of a configuration file; all keys have one dot."""
    section, name = key.split(".")
    return f'[{section}]\n\t{name} = "{value.translate(_ESCAPES)}"\n'
