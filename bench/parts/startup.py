"""Startup time of `kore --version` and `kore --help`."""

import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.figure import Figure, sampled
from bench.process import environ, wall_ms

RUNS = 11


async def measure(command: Sequence[str]) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="kore-bench-") as folder:
        cwd = Path(folder)
        env = environ(cwd / "home")
        commands = {
            "bare": [sys.executable, "-c", "pass"],
            "--version": [*command, "--version"],
            "--help": [*command, "--help"],
        }
        result: dict[str, list[float]] = {name: [] for name in commands}
        # Alternate, so that machine load affects all of them.
        for n in range(RUNS + 1):
            for name, words in commands.items():
                elapsed_ms = wall_ms(words, env, cwd)
                if n:
                    result[name].append(elapsed_ms)
    bare = statistics.median(result.pop("bare"))
    goals = {"--version": 40, "--help": 70}
    return [
        sampled(f"kore {name}", "ms", samples, bare=bare, goal=goals[name])
        for name, samples in result.items()
    ]
