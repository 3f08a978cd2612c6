"""Cost of a tool call compared with the bare function, in a real `kore agent` with all safeguards.

Policy, audit, journal and undo are on. One run makes one call, another run makes many; the cost of
a call is the difference divided by the number of additional calls.
"""

import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.figure import Figure, sampled
from bench.parts.journal import BareDisk
from bench.process import environ, wall_ms

CALLS = 100
ROUNDS = 5
# Syncs to disk for each call, in addition to the file itself: the journal and (twice) the audit
# log; for an edit also its beginning and its undo data.
_READ_SYNCS, _EDIT_SYNCS = 1, 5


async def measure(command: Sequence[str]) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="kore-bench-") as name:
        folder = Path(name)
        with BareDisk(folder / "bare.db") as disk:
            return [
                *_figures(command, folder / "read", disk, ("read_file", _READ_SYNCS), _read),
                *_figures(command, folder / "edit", disk, ("edit_file", _EDIT_SYNCS), _edit),
            ]


def _figures(
    command: Sequence[str],
    home: Path,
    disk: BareDisk,
    tool: tuple[str, int],
    bare: Callable[[Path], object],
) -> list[Figure]:
    name, syncs = tool
    files = home / "workspace"
    files.mkdir(parents=True)
    costs, cpus, commits = [], [], []
    bares, bare_cpus = [], []
    for n in range(ROUNDS + 1):
        _fill(files)
        many, many_cpu = _run(command, home, name, CALLS + 1)
        _fill(files)
        outcome, one_cpu = _run(command, home, name, 1)
        began, cpu = time.perf_counter(), time.process_time()
        for path in (files / f"{number}.txt" for number in range(1, CALLS + 1)):
            bare(path)
        result = (time.perf_counter() - began) * 1000 / CALLS
        bare_cpu = (time.process_time() - cpu) * 1000 / CALLS
        if n:
            costs.append((many - outcome) / CALLS)
            cpus.append((many_cpu - one_cpu) / CALLS)
            bares.append(result)
            bare_cpus.append(bare_cpu)
            commits.append(statistics.median(disk.commit_ms() for _ in range(20)))
    least, least_cpu = statistics.median(bares), statistics.median(bare_cpus)
    nets = [
        cost - result - syncs * commit
        for cost, result, commit in zip(costs, bares, commits, strict=True)
    ]
    note = f"without the function itself and {syncs} of SQLite's bare commits on this disk"
    return [
        sampled(f"a call of {name}", "ms", costs, bare=least),
        sampled(f"{name}, net of the disk", "ms", nets, goal=5, note=note),
        sampled(f"{name}, CPU", "ms", cpus, bare=least_cpu, goal=least_cpu + 5),
    ]


def _run(command: Sequence[str], home: Path, tool: str, count: int) -> tuple[float, float]:
    """Return time and CPU of the whole process, in milliseconds."""
    more = ', "old_string": "text", "new_string": "word"' if tool == "edit_file" else ""
    result = "\n".join(f'!tool {tool} {{"path": "{n}.txt"{more}}}' for n in range(count))
    options = ["--model", "offline/echo", "--permission-mode", "accept-edits"]
    before = _cpu_s()
    wall = wall_ms([*command, "agent", "-m", result, *options], environ(home), home / "workspace")
    return wall, (_cpu_s() - before) * 1000


def _cpu_s() -> float:
    """Return the CPU time of ended processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _fill(files: Path) -> None:
    for number in range(CALLS + 1):
        (files / f"{number}.txt").write_text("the text\n" + "another line\n" * 20)


def _read(path: Path) -> str:
    return path.read_text()


def _edit(path: Path) -> None:
    """Edit a file like a careful script: atomically, and synced to disk."""
    new = path.with_name(".new")
    with new.open("w") as file:
        file.write(path.read_text().replace("text", "word", 1))
        file.flush()
        os.fsync(file.fileno())
    new.rename(path)
    fd = os.open(path.parent, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
