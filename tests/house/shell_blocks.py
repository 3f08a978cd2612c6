"""Runner for the shell commands of the documentation pages, in a separate home folder."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.house.tree import ROOT


def surroundings(home: Path) -> Mapping[str, str]:
    """Return the environment of a machine without API keys, whose `kore` runs this checkout."""
    programs = home / "bin"
    programs.mkdir()
    kore = programs / "kore"
    kore.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gateway "$@"\n')
    kore.chmod(0o755)
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        "PYTHONUTF8": "1",
    }


def run(command: list[str], cwd: Path, environ: Mapping[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}{done.stderr}"
    return done.stdout
