"""Memory of a gateway per idle conversation."""

import asyncio
from collections.abc import Sequence

from bench.figure import Figure
from bench.process import Running
from bench.stage import OWNER, Stage, open_stage

SESSIONS = 1_000
# Realistic number of people who write at the same time.
_AT_ONCE = 20


async def measure(command: Sequence[str]) -> list[Figure]:
    async with open_stage(command) as stage, stage.bare_gateway() as running:
        bare_kb = await _growth_kb(stage, running)
    async with open_stage(command) as stage, stage.gateway() as running:
        own_kb = await _growth_kb(stage, running)
    note = "resident growth over 1,000 chats with one answered message each, idle again"
    return [Figure("an idle session", "kB", own_kb, bare=bare_kb, note=note)]


async def _growth_kb(stage: Stage, running: Running) -> float:
    """Return the growth per conversation, excluding the first."""
    _, since = await stage.turn_ms(OWNER, "hi", await stage.effects())
    before = running.resident_mb()
    for first in range(0, SESSIONS, _AT_ONCE):
        chats = range(1_000 + first, 1_000 + first + _AT_ONCE)
        await asyncio.gather(*(stage.say(chat, f"hello from {chat}") for chat in chats))
        _, since = await stage.answers(since, _AT_ONCE)
    await asyncio.sleep(1)
    return (running.resident_mb() - before) * 1024 / SESSIONS
