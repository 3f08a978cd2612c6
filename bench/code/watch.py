"""Benchmark of project watching: start, idle cost, and time from a write to its event.

The baseline is the recursive watch of watchfiles at its defaults, which also watches ignored files.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.code.large_trees import large_trees
from bench.figure import Figure, sampled
from bench.process import ROOT, environ

WRITES = 100
REST_S = 5.0
BURST = 5_000


async def measure(command: Sequence[str]) -> list[Figure]:
    figures: list[Figure] = []
    for root, folders, tree in large_trees():
        own, bare = (_in_process(way, root, folders) for way in ("kore", "watchfiles"))
        figures += [
            Figure(f"{tree}: to begin", "ms", own["begin_ms"], bare=bare["begin_ms"]),
            Figure(f"{tree}: longest stall", "ms", own["stall_ms"], bare=bare["stall_ms"]),
            Figure(f"{tree}: at rest", "% of a core", own["rest"], bare=bare["rest"], goal=1),
            Figure(f"{tree}: memory", "MB", own["memory_mb"], bare=bare["memory_mb"]),
            sampled(
                f"{tree}: write to event",
                *("ms", own["waits_ms"]),
                bare=sorted(bare["waits_ms"])[WRITES // 2],
                goal=100,
                goal_p95=100,
            ),
            Figure(
                f"{tree}: batches of {BURST:,} writes", "", own["batches"], bare=bare["batches"]
            ),
        ]
    return figures


def _in_process(way: str, root: Path, folders: int) -> Any:
    command = [sys.executable, "-m", "bench.code.watch", way, str(root), str(folders)]
    shown = subprocess.run(command, env=environ(), cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return json.loads(shown.stdout)


@asynccontextmanager
async def _kore(root: Path) -> AsyncIterator[AsyncIterator[int]]:
    """Yield the number of changes in each batch, after the watch has begun."""
    from agent.code.watch.project_watches import ProjectWatches

    watches = ProjectWatches()
    with watches.follow(root) as subscription:
        await subscription.wait_begun()

        async def counts() -> AsyncIterator[int]:
            async for batch in subscription:
                yield len(batch.changes)

        yield counts()
    watches.close()


@asynccontextmanager
async def _watchfiles(root: Path) -> AsyncIterator[AsyncIterator[int]]:
    from watchfiles import awatch

    stop = asyncio.Event()

    async def counts() -> AsyncIterator[int]:
        async for changes in awatch(root, stop_event=stop):
            yield len(changes)

    stream = counts()
    first = asyncio.ensure_future(anext(stream))
    # watchfiles does not report its start: its first step blocks the loop until then.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    (root / "first").write_text("x")
    await first
    yield stream
    stop.set()


async def _measure(way: str, root: Path, folders: int) -> dict[str, Any]:
    stalls, before_mb, began = [0.0], _memory_mb(), time.perf_counter()
    pulse = asyncio.create_task(_beat(stalls))
    async with (_kore if way == "kore" else _watchfiles)(root) as counts:
        begin_ms = (time.perf_counter() - began) * 1000
        pulse.cancel()
        waits = []
        for number in range(WRITES):
            folder = number * folders // WRITES
            await asyncio.sleep(0.01)
            wrote = time.perf_counter()
            (root / f"{folder // 100}/{folder % 100}/0.py").write_text("y")
            await anext(counts)
            waits.append((time.perf_counter() - wrote) * 1000)
        # Wait for the next change; otherwise, watchfiles would not check for changes.
        pending = asyncio.ensure_future(anext(counts))
        cpu = time.process_time()
        await asyncio.sleep(REST_S)
        rest = (time.process_time() - cpu) / REST_S * 100
        memory_mb = _memory_mb() - before_mb
        writing = asyncio.create_task(asyncio.to_thread(_write_burst, root))
        total, batches = await pending, 1
        while total < BURST:
            total += await anext(counts)
            batches += 1
        await writing
    return {
        "begin_ms": begin_ms,
        "stall_ms": max(stalls) * 1000,
        "waits_ms": waits,
        "rest": rest,
        "memory_mb": memory_mb,
        "batches": batches,
    }


async def _beat(stalls: list[float]) -> None:
    """Record the duration of each block of the loop."""
    last = time.perf_counter()
    while True:
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        stalls.append(now - last)
        last = now


def _write_burst(root: Path) -> None:
    folders = sorted(path for path in root.glob("*/*") if path.is_dir())[: BURST // 10]
    for folder in folders:
        for number in range(10):
            (folder / f"{number}.py").write_text("z")


def _memory_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))))
