"""Runs the real program."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[3]


def kore(
    *words: str | Path, home: Path, environ: Mapping[str, str] | None = None, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run `kore` in `home`'s parent with next to nothing in the environment."""
    clean = {"PATH": os.environ["PATH"], "HOME": str(home.parent), "KORE_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-m", "gateway", *map(str, words)],
        cwd=home.parent,
        env={**clean, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **(environ or {})},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
