"""Benchmark of `kore agent -m hi`: the whole process, with a model that answers at once."""

import statistics
import sys
from collections.abc import Sequence

from bench.figure import Figure, sampled
from bench.process import environ, wall_ms
from bench.stage import open_stage

RUNS = 11


async def measure(command: Sequence[str]) -> list[Figure]:
    results: list[float] = []
    bare: list[float] = []
    async with open_stage(command) as stage:
        env, cwd = environ(stage.home), stage.home.parent
        script = [sys.executable, "-m", "bench.bare", "once", stage.model.url, "hi"]
        # The first run creates the workspace and the database.
        for n in range(RUNS + 1):
            kore_ms = wall_ms([*command, "agent", "-m", "hi"], env, cwd)
            bare_ms = wall_ms(script, env, cwd)
            if n:
                results.append(kore_ms)
                bare.append(bare_ms)
    return [
        sampled(
            "one-shot turn", "ms", results, bare=statistics.median(bare), goal=450, imports=True
        )
    ]
