"""Limits on memory and disk usage of commands; a command that exceeds them is ended.

The kernel bounds each process, and each command in a control group; without such a group it cannot
bound the sum of a conversation's commands, and it never bounds the files that they write. Kore
therefore checks these limits periodically.
"""

import asyncio
import os
import stat
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.folder_tree import TreeEntry, TreeWalk, open_up_folder
from agent.security.files.safe_open import LISTED, open_folder_beneath
from agent.security.sandbox.base import Limits
from agent.security.taint.command_marks import WriteClock

POLL_INTERVAL_S = 0.5
# Maximum share of the machine's memory, regardless of the configured limit.
MEMORY_SHARE = 0.75
# Bytes that a command may write if the disk was already full.
SPARE_BYTES = 16_000_000
_MAX_ENTRIES = 200_000
_MB = 1_000_000


@dataclass(slots=True, eq=False)
class CommandMeter:
    """Meter of one command; `attach` it once the command has started.

    `folders` are the folders that the command can write to; they are checked every `look_s`.
    `end_reason` is for the model.
    """

    session: str
    folders: tuple[Path, ...]
    limits: Limits
    look_s: float = POLL_INTERVAL_S
    pid: int | None = None
    end_reason: str = ""
    clock: WriteClock = field(default_factory=WriteClock)
    _end: Callable[[], None] | None = None

    def attach(self, pid: int, end: Callable[[], None]) -> None:
        self.pid, self._end = pid, end

    def end(self, why: str) -> None:
        if self._end is not None and not self.end_reason:
            self.end_reason = why
            self._end()


@frozen
class _Process:
    parent: int
    resident: int


class ResourceLimits:
    """Running commands, with a shared scan of the processes.

    `free_bytes` returns the free space on the disk of a folder.
    """

    def __init__(self, free_bytes: Callable[[Path], int] | None = None) -> None:
        self._free_bytes = free_bytes or _free
        self._meters: set[CommandMeter] = set()
        self._processes_seen: Mapping[int, _Process] = {}
        self._seen_at = 0.0

    @asynccontextmanager
    async def metered(self, meter: CommandMeter) -> AsyncIterator[CommandMeter]:
        """Monitor a command while the context is open."""
        self._meters.add(meter)
        task = asyncio.create_task(self._look_after(meter), name="a command's meter")
        try:
            yield meter
        finally:
            self._meters.discard(meter)
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and (failure := task.exception()) is not None:
                raise failure

    async def _look_after(self, meter: CommandMeter) -> None:
        free_before = {folder: self._free_bytes(folder) for folder in meter.folders}
        while not meter.end_reason:
            await asyncio.sleep(meter.look_s)
            # The clock may have been set since the last check.
            meter.clock.look()
            if meter.pid is None:
                continue
            await self._weigh(meter)
            for folder, free in free_before.items():
                await _gauge(meter, folder, free, self._free_bytes(folder))

    async def _weigh(self, meter: CommandMeter) -> None:
        """End the command if its session uses too much memory and it uses the most."""
        limit = min(meter.limits.session_bytes, int(_machine_bytes() * MEMORY_SHARE))
        now = time.monotonic()
        if now - self._seen_at > POLL_INTERVAL_S / 2:
            self._seen_at = now
            self._processes_seen = await asyncio.to_thread(_processes)
        ours = [
            other
            for other in self._meters
            if other.session == meter.session and not other.end_reason
        ]
        trees = {other: _find_descendants(self._processes_seen, other.pid) for other in ours}
        if (
            sum(self._processes_seen[pid].resident for tree in trees.values() for pid in tree)
            <= limit
        ):
            return
        # This takes longer, but counts pages shared by several processes once.
        used = {each: await asyncio.to_thread(_shares, tree) for each, tree in trees.items()}
        if sum(used.values()) > limit and used.get(meter, 0) == max(used.values()):
            meter.end(render_prompt("tools/exec_memory", mb=limit // _MB))


async def _gauge(meter: CommandMeter, folder: Path, free: int, free_now: int) -> None:
    """End the command if the disk is nearly full, or if it has written too much."""
    limits, used_bytes = meter.limits, free - free_now
    if free_now < limits.free_bytes and used_bytes > SPARE_BYTES:
        meter.end(render_prompt("tools/exec_disk_full", mb=limits.free_bytes // _MB))
    elif used_bytes > limits.disk_bytes:
        # Other programs write to this disk, too.
        written_bytes = await asyncio.to_thread(_changed_bytes, folder, meter.clock.time_s)
        if written_bytes > limits.disk_bytes:
            meter.end(render_prompt("tools/exec_disk", mb=limits.disk_bytes // _MB))


def _free(folder: Path) -> int:
    stats = os.statvfs(folder)
    return stats.f_bavail * stats.f_frsize


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _processes() -> Mapping[int, _Process]:
    """Return every process of this machine, with its parent and its memory."""
    page, processes = os.sysconf("SC_PAGE_SIZE"), dict[int, _Process]()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
                processes[int(name)] = _Process(int(fields[1]), int(fields[21]) * page)
    return processes


def _find_descendants(processes: Mapping[int, _Process], top: int | None) -> Collection[int]:
    """Return this process and all of its descendants."""
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    descendants: list[int] = [] if top is None or top not in processes else [top]
    for pid in descendants:
        descendants += children.get(pid, ())
    return descendants


def _shares(pids: Collection[int]) -> int:
    """Return the memory of these processes, with shared pages in equal shares.

    A process that may not be inspected counts in full.
    """
    return sum(map(_share, pids))


def _share(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            return sum(int(line.split()[1]) for line in file if line.startswith(b"Pss:")) * 1024
    except FileNotFoundError:
        return 0
    except OSError:
        process = _processes().get(pid)
        return 0 if process is None else process.resident


def _enter(folder: TreeEntry) -> bool:
    """Enter every folder, because a command may remove permissions to hide the files that it
    writes.
    """
    listable = stat.S_IRUSR | stat.S_IXUSR
    if folder.info.st_mode & listable != listable:
        folder.open_up()
    return True


def _changed_bytes(folder: Path, since: float) -> int:
    """Return the disk usage of files changed since a time.

    Of many entries, only those that were scanned count.
    """
    total = entries = 0
    real = folder.resolve()
    if not os.access(real, os.R_OK | os.X_OK):
        open_up_folder(real)
    with suppress(OSError), open_folder_beneath(real, flags=LISTED) as root:
        for member in TreeWalk(root, _enter):
            entries += 1
            if entries > _MAX_ENTRIES:
                break
            if not member.is_folder and member.info.st_ctime >= since:
                total += member.info.st_blocks * 512
    return total
