"""Commands of the pages, run in a home of their own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.house.tree import ROOT


def surroundings(home: Path) -> Mapping[str, str]:
    """Return the environment of a machine without keys, where `kore` is this checkout's."""
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
