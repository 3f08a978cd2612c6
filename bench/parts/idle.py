"""Benchmark of the idle gateway with Telegram: time to the first poll, and memory."""

import asyncio
import statistics
from collections.abc import Sequence

from bench.figure import Figure, sampled
from bench.stage import OWNER, open_stage

STARTS = 5
REST_S = 5


async def measure(command: Sequence[str]) -> list[Figure]:
    starts, bare_starts = [], []
    for _ in range(STARTS):
        async with open_stage(command) as stage, stage.gateway() as running:
            state = await stage.bot.get("state")
            starts.append((state["first_poll_at"] - running.began_at) * 1000)
        async with open_stage(command) as stage, stage.bare_gateway() as running:
            state = await stage.bot.get("state")
            bare_starts.append((state["first_poll_at"] - running.began_at) * 1000)
    async with open_stage(command) as stage, stage.bare_gateway() as bare:
        await asyncio.sleep(1)
        bare_mb, bare_pss_mb = bare.resident_mb(), bare.proportional_mb()
    async with open_stage(command) as stage, stage.gateway() as running:
        await asyncio.sleep(REST_S)
        idle_mb, idle_pss_mb = running.resident_mb(), running.proportional_mb()
        await stage.turn_ms(OWNER, "hi", await stage.effects())
        await asyncio.sleep(0.2)
        used_mb, used_pss_mb = running.resident_mb(), running.proportional_mb()
    bare_start = statistics.median(bare_starts)
    return [
        sampled("start to first poll", "ms", starts, bare=bare_start, goal=600, imports=True),
        Figure("idle, resident", "MB", idle_mb, bare=bare_mb, goal=62),
        Figure("idle, proportional", "MB", idle_pss_mb, bare=bare_pss_mb),
        Figure("after a model call, resident", "MB", used_mb, bare=bare_mb, goal=65),
        Figure("after a model call, proportional", "MB", used_pss_mb, bare=bare_pss_mb),
    ]
