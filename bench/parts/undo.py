"""Benchmark of undo snapshots of 10,000 files, compared with a bare walk of the same files."""

import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.undo.blob_store import BlobStore
from agent.undo.change_log import ChangeLog
from agent.undo.command_diff import CommandChangeDetector
from agent.undo.file_ledger import FileLedger
from agent.undo.records import ChangeOrigin
from bench.figure import Figure, sampled

FILES = 10_000
ROUNDS = 7


async def measure(command: Sequence[str]) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        root, store = Path(folder, "workspace"), Path(folder, "undo")
        _fill(root)
        changes = ChangeLog(FileLedger(store), BlobStore(store))

        def around() -> None:
            work = CommandChangeDetector(ChangeOrigin("s", 1, "c", "exec", root.resolve()), changes)
            work.begin()
            work.end()

        bare = [_ms(lambda: _walk(root)) for _ in range(ROUNDS)]
        cold = _ms(around)
        warm = [_ms(around) for _ in range(ROUNDS)]
    walked = sorted(bare)[len(bare) // 2]
    note = f"before and after a command, {FILES:,} files; bare is two walks with stat()"
    return [
        sampled("first snapshot of a workspace", "ms", [cold], bare=2 * walked, note=note),
        sampled("snapshot, nothing changed", "ms", warm, bare=2 * walked, goal=500, note=note),
    ]


def _fill(root: Path) -> None:
    """Create files like a project's: 2 KB on average, 50 in a folder, changed a day ago."""
    yesterday = time.time() - 86_400
    for number in range(FILES):
        path = root / f"package{number // 500}" / f"part{number // 50 % 10}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {number}\n" + "value = compute(other, 12)\n" * (number % 150))
        os.utime(path, (yesterday, yesterday))
    (root / ".gitignore").write_text("*.pyc\n__pycache__/\nbuild/\n/dist\n*.log\n.venv\n")
    # Files written recently might change unnoticed, so they would be read again.
    time.sleep(1.5)


def _walk(root: Path) -> None:
    for folder, _, names in os.walk(root):
        for name in names:
            os.lstat(f"{folder}/{name}")


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000
