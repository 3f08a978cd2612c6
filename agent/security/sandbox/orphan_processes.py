"""Detection and cleanup of commands that a killed Kore left behind.

Each program that Kore starts for a command has an environment variable that names the Kore process.
The mark exists as soon as the process does, which a record in a file could not guarantee. Kore must
not end every marked process: a terminal multiplexer that a person started should survive. Therefore
each Kore is recorded in a file while it runs, and only processes of a Kore that is still recorded
there are killed.
"""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.security.sandbox.unprivileged_user import USER

NAME = "KORE_STARTED_BY"


def process_mark() -> dict[str, str]:
    """Return the variable that names this process; empty without /proc."""
    try:
        return {NAME: f"{_process_table()}:{os.getpid()}:{_began(os.getpid())}"}
    except OSError:
        return {}


@contextmanager
def recorded_commands(file: Path) -> Iterator[None]:
    """Record this process in the file while the context is open, replacing an earlier record."""
    new_file = file.with_name(f"{file.name}.new")
    new_file.unlink(missing_ok=True)
    new_file.touch(mode=0o600)
    new_file.write_text("".join(process_mark().values()), encoding="ascii")
    new_file.replace(file)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def end_orphans(file: Path) -> int:
    """Kill the processes of the recorded Kore if it is gone; return their number.

    This process and its ancestors are never killed.
    """
    try:
        mark = file.read_text(encoding="ascii", errors="replace")
        if not _is_gone(mark, _process_table()):
            return 0
        names, around = os.listdir("/proc"), set(_ancestors(os.getpid()))
    except OSError:
        return 0
    ended = 0
    for pid in set(map(int, filter(str.isdigit, names))) - around:
        with suppress(OSError):
            pidfd = os.pidfd_open(pid)
            try:
                if _is_left(pid, mark):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    ended += 1
            finally:
                os.close(pidfd)
    return ended


def end_all_orphans(files: Iterable[Path]) -> int:
    """End the orphans of several files, and remove the files whose Kore is gone."""
    ended = 0
    for file in files:
        ended += end_orphans(file)
        with suppress(OSError):
            if _is_gone(file.read_text(encoding="ascii", errors="replace"), _process_table()):
                file.unlink()
    return ended


def is_gone(mark: str) -> bool:
    """Return whether the process of this mark has ended; other machines' processes count as
    running.
    """
    try:
        return _is_gone(mark, _process_table())
    except OSError:
        return False


def _is_left(pid: int, mark: str) -> bool:
    if os.stat(f"/proc/{pid}").st_uid not in (os.geteuid(), USER):
        return False
    return mark in _marks(pid)


def _ancestors(pid: int) -> Iterator[int]:
    """Yield the process, its parent, and so on."""
    while pid > 0:
        yield pid
        with open(f"/proc/{pid}/stat", "rb") as file:
            pid = int(file.read().rpartition(b")")[2].split()[1])


def _marks(pid: int) -> Iterator[str]:
    with open(f"/proc/{pid}/environ", "rb") as file:
        for variable in file.read().split(b"\0"):
            name, _, value = variable.decode("utf-8", "replace").partition("=")
            if name == NAME:
                yield value


def _is_gone(value: str, table: str) -> bool:
    """Return whether a mark names a process of this process table that no longer exists."""
    of_table, _, process = value.partition(":")
    pid, _, began = process.partition(":")
    if of_table != table or not pid.isdigit():
        return False
    try:
        return _began(int(pid)) != began
    except FileNotFoundError:
        return True


def _process_table() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _began(pid: int) -> str:
    """Return the start time in ticks since boot, which unlike the process id is never reused."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return "gone" if fields[0] in (b"Z", b"X") else fields[19].decode()
