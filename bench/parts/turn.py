"""Benchmark of one message at a time, from its delivery to the full answer."""

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.figure import Figure, sampled
from bench.parts.journal import BareDisk
from bench.process import Running
from bench.stage import OWNER, Stage, open_stage

TURNS = 200
WARM_UPS = 2
# Commits before an answer is sent: the poll, the claim, the end of the turn, the mark "in flight".
COMMITS = 4


async def measure(command: Sequence[str]) -> list[Figure]:
    with (
        tempfile.TemporaryDirectory(prefix="kore-bench-") as folder,
        BareDisk(Path(folder) / "bare.db") as disk,
    ):
        async with open_stage(command) as stage, stage.bare_gateway() as running:
            bare, bare_cpu, _ = await _converse(stage, running, disk)
        async with open_stage(command) as stage, stage.gateway() as running:
            result, cpu, commits = await _converse(stage, running, disk)
    bare_ms, commit_ms = statistics.median(bare), statistics.median(commits)
    net_ms = statistics.median(result) - COMMITS * commit_ms
    note = f"less {COMMITS} commits of {commit_ms:.2f} ms, which is what the disk took meanwhile"
    return [
        sampled("update to full answer", "ms", result, bare=bare_ms, goal=12, goal_p95=30),
        Figure("the same, net of the disk", "ms", net_ms, bare=bare_ms, note=note),
        Figure("CPU of a turn", "ms", cpu, bare=bare_cpu, goal=10),
    ]


async def _converse(
    stage: Stage, running: Running, disk: BareDisk
) -> tuple[list[float], float, list[float]]:
    """Return milliseconds per turn, the process's CPU per turn, and a commit after each turn."""
    since = await stage.effects()
    results: list[float] = []
    commits: list[float] = []
    began = 0.0
    for n in range(WARM_UPS + TURNS):
        if n == WARM_UPS:
            began = running.cpu_ms()
        elapsed_ms, since = await stage.turn_ms(OWNER, f"message {n}", since)
        if n >= WARM_UPS:
            results.append(elapsed_ms)
            commits.append(disk.commit_ms())
    return results, (running.cpu_ms() - began) / TURNS, commits
