"""Kill all descendants, including processes that left their group or lost their parent.

The calling process must be a child subreaper (prctl(2)), which becomes the parent of orphans.
"""

import os
import signal
import time

# Time for processes that are about to end anyway, as after a process substitution.
_ENDING_S = 0.1


def kill_descendants() -> None:
    """Kill all descendants. They are stopped first, so that no fork escapes."""
    stopped: set[int] = set()
    while _has_children():
        new = _find_descendants() - stopped
        if not new:
            break
        for pid in new:
            _signal(pid, signal.SIGSTOP)
        stopped |= new
    for pid in stopped:
        _signal(pid, signal.SIGKILL)
    while _has_children(os.WEXITED):
        os.waitpid(-1, 0)
        for pid in _find_descendants():
            _signal(pid, signal.SIGKILL)


def name_descendants() -> list[str]:
    """Return the first words of the names of all descendants that keep running for a moment.

    May block for that long.
    """
    if not _find_descendants():
        return []
    time.sleep(_ENDING_S)
    names = []
    for pid in sorted(_find_descendants()):
        try:
            with open(f"/proc/{pid}/comm", "rb") as file:
                names += file.read().decode("ascii", "replace").split()[:1]
        except OSError:
            continue
    return names


def _has_children(flags: int = os.WEXITED | os.WNOHANG) -> bool:
    try:
        os.waitid(os.P_ALL, 0, flags | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _find_descendants() -> set[int]:
    """Return all living descendants; orphans have become children of this process."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, parent = file.read().rpartition(b")")[2].split()[:2]
            except OSError:
                continue
            if state not in b"ZX":
                parents[int(name)] = int(parent)
    own, descendants = os.getpid(), set[int]()
    for pid in parents:
        line = [pid]
        while line[-1] in parents and line[-1] not in descendants and line[-1] != own:
            line.append(parents[line[-1]])
        if line[-1] in descendants or line[-1] == own:
            descendants.update(line)
    return descendants - {own}


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        return
