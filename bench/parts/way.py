"""Trace of a plain message: modules, switches, jobs, statements and function calls.

Switches are changes between modules of Kore; jobs and statements belong to the database. The
figures are counts, not times: they are the same on every machine.
"""

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figure import Figure
from bench.process import ROOT
from bench.stage import OWNER, open_stage, until

# Current number; ADR 0104 explains why it is not lower.
GOAL_MODULES = 160
GOAL_STATEMENTS = 30
GOAL_JOBS = 5
GOAL_FUNCTIONS = 9_500
# Statements of the engine around the submitted work, and statements of SQLite's triggers and full
# text index inside a statement.
_FRAME = re.compile(r"--|(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE)\b", re.IGNORECASE)
_JOB = re.compile(r"SAVEPOINT\b", re.IGNORECASE)
# After the answer has arrived, it is marked as sent.
_REST_S = 1.0
_FUNCTIONS_NOTE = "libraries' and C functions too, and each time that a coroutine goes on"


async def measure(command: Sequence[str]) -> list[Figure]:
    """Measure this source tree, the only one that can be traced; `command` is ignored."""
    result = await trace("hi")
    modules = {module for calls in result["calls"] for module in calls}
    switches = sum(len(calls) - 1 for calls in result["calls"])
    work = [statement for statement in result["statements"] if not _FRAME.match(statement)]
    jobs = sum(1 for statement in result["statements"] if _JOB.match(statement))
    return [
        Figure("modules that a plain message enters", "", len(modules), goal=GOAL_MODULES),
        Figure("switches between them", "", switches),
        Figure("statements for it", "", len(work), goal=GOAL_STATEMENTS),
        Figure("jobs of the database", "", jobs, goal=GOAL_JOBS),
        Figure(
            "function calls for it",
            "",
            result["functions"],
            goal=GOAL_FUNCTIONS,
            note=_FUNCTIONS_NOTE,
        ),
    ]


async def trace(text: str) -> Any:
    """Trace the calls and statements of the second message of a conversation."""
    with tempfile.TemporaryDirectory(prefix="kore-way-") as folder:
        file = Path(folder) / "way.json"
        command = [sys.executable, "-m", "bench.traced", str(file)]
        async with open_stage(command) as stage, stage.gateway() as running:
            since = await stage.effects()
            _, since = await stage.turn_ms(OWNER, "before", since)
            await asyncio.sleep(_REST_S)
            os.kill(running.process.pid, signal.SIGUSR1)
            await stage.turn_ms(OWNER, text, since)
            await asyncio.sleep(_REST_S)
            os.kill(running.process.pid, signal.SIGUSR1)

            async def is_written() -> bool:
                return file.exists()

            await until(is_written)
        return json.loads(file.read_text())


def listing(taken: Any) -> str:
    """Return the trace for reading: each module with its switches, and each statement."""
    counts: dict[str, int] = {}
    for calls in taken["calls"]:
        for module in calls:
            name = str(Path(module).relative_to(ROOT))
            counts[name] = counts.get(name, 0) + 1
    rows = [f"{count:4} {name}" for name, count in sorted(counts.items(), key=lambda i: -i[1])]
    functions = f"{taken['functions']} function calls"
    return "\n".join([*rows, "", *taken["statements"], "", functions])


if __name__ == "__main__":
    print(listing(asyncio.run(trace("hi"))))
