"""A shell that starts a command and lets its whole process group die with Kore."""

from collections.abc import Sequence
from pathlib import Path

# Standard input is a pipe whose other end only Kore holds. A watcher in the command's group waits
# for its end: when Kore dies, by whatever signal, the watcher kills the group. PR_SET_PDEATHSIG
# would reach the program alone and not what it started, and it fires when the thread that forked
# ends, not the process. The program itself replaces this shell and reads from what it was given.
_WATCH = 'exec 3<&0 <%s; (read -r _ <&3; kill -9 0) >/dev/null 2>&1 & exec 3<&-; exec "$@"'


def source(stdin: int | None) -> str:
    """The file that a command reads from; a descriptor of two digits has no other name in sh."""
    return "/dev/null" if stdin is None else f"/dev/fd/{stdin}"


def with_parent_watch(
    argv: Sequence[str], moved_to: Sequence[Path] = (), stdin: int | None = None
) -> tuple[str, ...]:
    """The words that run `argv` with a watcher; first moved to control groups, if any are given.

    `stdin` is the descriptor that it reads from.
    """
    watch = _WATCH % source(stdin)
    move = 'echo $$ >"$1" || exit 126; shift; ' * len(moved_to)
    return ("/bin/sh", "-c", f"{move}{watch}", "sh", *map(str, moved_to), *argv)
