"""Repositories of the tests."""

import os
import subprocess
from pathlib import Path

_IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@a.example"}
_IDENTITY |= {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@a.example"}


def git(folder: Path, *words: str) -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder.parent), **_IDENTITY}
    return subprocess.run(
        ["git", *words], cwd=folder, env=environ, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(folder: Path, **files: str) -> str:
    """Write files (`a__py` is a.py), commit everything and return the commit."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "change")
    return git(folder, "rev-parse", "HEAD")
