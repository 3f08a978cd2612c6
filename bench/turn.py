"""One message through the gateway: from its delivery to the full answer, one at a time."""

import statistics
from collections.abc import Sequence

from bench.figure import Figure, sampled
from bench.process import Running
from bench.stage import OWNER, Stage, open_stage

TURNS = 200
WARM_UPS = 2


async def measure(command: Sequence[str]) -> list[Figure]:
    async with open_stage(command) as stage, stage.bare_gateway() as running:
        bare, bare_cpu = await _converse(stage, running)
    async with open_stage(command) as stage, stage.gateway() as running:
        taken, cpu = await _converse(stage, running)
    bare_ms = statistics.median(bare)
    return [
        sampled("update to full answer", "ms", taken, bare=bare_ms, goal=12, goal_p95=30),
        Figure("CPU of a turn", "ms", cpu, bare=bare_cpu, goal=10),
    ]


async def _converse(stage: Stage, running: Running) -> tuple[list[float], float]:
    """The milliseconds of each turn, and the process's CPU per turn."""
    since = await stage.effects()
    taken: list[float] = []
    began = 0.0
    for n in range(WARM_UPS + TURNS):
        if n == WARM_UPS:
            began = running.cpu_ms()
        elapsed_ms, since = await stage.turn_ms(OWNER, f"message {n}", since)
        if n >= WARM_UPS:
            taken.append(elapsed_ms)
    return taken, (running.cpu_ms() - began) / TURNS
