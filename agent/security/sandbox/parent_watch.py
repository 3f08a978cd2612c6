"""Shell wrapper that kills a command's process group when Kore dies."""

from collections.abc import Sequence
from pathlib import Path

# Standard input is a pipe whose other end only Kore has. A watcher in the command's group waits for
# its end: when Kore dies, by any signal, the watcher kills the group. PR_SET_PDEATHSIG would
# reach only the program and not its children, and it fires when the forking thread ends, not the
# process. The program replaces this shell and reads its configured input.
_WATCH = 'exec 3<&0 <%s; (read -r _ <&3; kill -9 0) >/dev/null 2>&1 & exec 3<&-; exec "$@"'


def input_path(stdin: int | None) -> str:
    """Return the file to read from; sh has no other name for a descriptor with two digits."""
    return "/dev/null" if stdin is None else f"/dev/fd/{stdin}"


def with_parent_watch(
    argv: Sequence[str], moved_to: Sequence[Path] = (), stdin: int | None = None
) -> tuple[str, ...]:
    """Return the command line that runs `argv` with a watcher, in control groups if any are given.

    `stdin` is the descriptor that the command reads from.
    """
    watch = _WATCH % input_path(stdin)
    move = 'echo $$ >"$1" || exit 126; shift; ' * len(moved_to)
    return ("/bin/sh", "-c", f"{move}{watch}", "sh", *map(str, moved_to), *argv)
