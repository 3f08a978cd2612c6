"""Program name for hints, as it works on this installation."""

import os
import shlex
import sys


def program_name() -> str:
    """Return `kore` if PATH finds this program, else the path it was started by."""
    started = sys.argv[0]
    if os.path.basename(started) != "kore":
        return "kore"
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder or os.curdir, "kore")
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return "kore" if os.path.samefile(path, started) else shlex.quote(started)
    return shlex.quote(started)


def as_installed(text: str) -> str:
    """Return the text with commands (`` `kore …` ``) that work on this installation."""
    if "`kore " not in text and "`kore`" not in text:
        return text
    name = program_name()
    return text.replace("`kore ", f"`{name} ").replace("`kore`", f"`{name}`")
