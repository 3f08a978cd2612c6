"""Start of measured processes, and their kernel statistics."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[1]
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def kore_command(given: str | None = None) -> list[str]:
    """Return the installed program of this Python, or the package if there is none."""
    if given:
        return [given]
    script = Path(sys.executable).with_name("kore")
    return [str(script)] if script.exists() else [sys.executable, "-m", "gateway"]


def environ(home: Path | None = None) -> dict[str, str]:
    """Return a minimal environment.

    Bytecode may be written, or every start would compile Kore again.
    """
    variables = {"PATH": os.environ["PATH"], "HOME": str(home or Path("/nonexistent"))}
    variables["PYTHONPATH"] = str(ROOT)
    return variables | ({"KORE_HOME": str(home)} if home else {})


def wall_ms(command: Sequence[str], env: Mapping[str, str], cwd: Path) -> float:
    """Return the time of one run, from fork to exit.

    Raises `CalledProcessError`, with the output of the command.
    """
    began = time.perf_counter()
    subprocess.run(command, env=env, cwd=cwd, check=True, capture_output=True, stdin=-3)
    return (time.perf_counter() - began) * 1000


class Running(AbstractContextManager["Running"]):
    """Process that is stopped when the context ends; `began_at` is Unix time in seconds."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path, **more: Any):
        self._command, self._env, self._cwd, self._more = command, env, cwd, more
        self.began_at = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.began_at = time.time()
        self._process = subprocess.Popen(
            self._command, env=self._env, cwd=self._cwd, stdin=subprocess.DEVNULL, **self._more
        )
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "entered"
        return self._process

    def cpu_ms(self) -> float:
        """Return user and system time so far, over all threads."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) * 1000 / _TICKS_PER_S

    def resident_mb(self) -> float:
        return self._kilobytes("status", "VmRSS") / 1024

    def anonymous_mb(self) -> float:
        """Return resident memory without the pages of files: the allocator's memory."""
        return self._kilobytes("status", "RssAnon") / 1024

    def proportional_mb(self) -> float:
        """Return resident memory with shared pages divided among their processes."""
        return self._kilobytes("smaps_rollup", "Pss") / 1024

    def _kilobytes(self, file: str, field: str) -> float:
        lines = Path(f"/proc/{self.process.pid}/{file}").read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
