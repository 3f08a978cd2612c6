"""Commands whose Kore was killed, and that nothing else has ended: found by a mark, and killed.

Each program that Kore starts for a command carries, in the environment that it begins with, which
process started it. The mark is there from its first moment, as no note in a file could be.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

from agent.security.sandbox.account import USER

NAME = "KORE_STARTED_BY"


def mark() -> dict[str, str]:
    """The variable that names this process; empty where there is no /proc."""
    try:
        return {NAME: f"{_process_table()}:{os.getpid()}:{_began(os.getpid())}"}
    except OSError:
        return {}


def end_leftovers() -> int:
    """Kill what was started by a Kore of this user that is gone; how many processes that were."""
    try:
        table, names = _process_table(), os.listdir("/proc")
    except OSError:
        return 0
    ended = 0
    for pid in map(int, filter(str.isdigit, names)):
        with suppress(OSError):
            opened = os.pidfd_open(pid)
            try:
                if _is_left(pid, table):
                    signal.pidfd_send_signal(opened, signal.SIGKILL)
                    ended += 1
            finally:
                os.close(opened)
    return ended


def _is_left(pid: int, table: str) -> bool:
    if os.stat(f"/proc/{pid}").st_uid not in (os.geteuid(), USER):
        return False
    return any(_is_gone(value, table) for value in _marks(pid))


def _marks(pid: int) -> Iterator[str]:
    with open(f"/proc/{pid}/environ", "rb") as file:
        for variable in file.read().split(b"\0"):
            name, _, value = variable.decode("utf-8", "replace").partition("=")
            if name == NAME:
                yield value


def _is_gone(value: str, table: str) -> bool:
    """Whether a mark names a process of this process table that is no more."""
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
    """When a process began, in ticks since the machine did: a number is used again, this is not."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return "gone" if fields[0] in (b"Z", b"X") else fields[19].decode()
