"""Cost of starting a command in each sandbox, compared with a bare `sh -c true`."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from agent.errors import ConfigError
from agent.security.sandbox.base import Sandbox, SandboxCommand
from agent.security.sandbox.selector import ORDER, SandboxOptions, select_sandbox
from agent.security.sandbox.unconfined import Unconfined
from agent.tools.shell.process_group import run
from bench.figure import Figure, sampled
from bench.process import environ, wall_ms

RUNS = 31


async def measure(command: Sequence[str]) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="kore-bench-") as folder:
        home, workspace = Path(folder), Path(folder) / "workspace"
        workspace.mkdir()
        result: dict[str, list[float]] = {"bare": []}
        boxes: dict[str, Sandbox] = {"none": Unconfined()}
        for name in ORDER:
            try:
                boxes[name] = (
                    await asyncio.to_thread(select_sandbox, SandboxOptions(name), home)
                ).sandbox
            except ConfigError:
                continue  # not on this machine
        results: list[float] = []
        for n in range(RUNS + 1):
            # Alternate, so that machine load affects all of them.
            bare = wall_ms(["sh", "-c", "true"], environ(), workspace)
            times = {name: await _start_ms(box, workspace) for name, box in boxes.items()}
            began = time.perf_counter()
            select_sandbox(SandboxOptions(), home)
            kept_ms = (time.perf_counter() - began) * 1000
            if n:
                result["bare"].append(bare)
                results.append(kept_ms)
                for name, elapsed_ms in times.items():
                    result.setdefault(name, []).append(elapsed_ms)
    median = statistics.median(result.pop("bare"))
    figures = [
        sampled(f"sh -c true in {name}", "ms", samples, bare=median)
        for name, samples in result.items()
    ]
    return [*figures, sampled("choosing a sandbox that was tried", "ms", results, goal=2)]


async def _start_ms(box: Sandbox, workspace: Path) -> float:
    began = time.perf_counter()
    with box.prepare(SandboxCommand("true", workspace, workspace)) as spawn:
        ended = await run(spawn, 10, lambda data: None)
    assert ended.code == 0, f"{box.name} ended with {ended.code}"
    return (time.perf_counter() - began) * 1000
