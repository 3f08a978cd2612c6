"""A shell that starts a command and lets its whole process group die with Kore."""

from collections.abc import Sequence
from pathlib import Path

# Standard input is a pipe whose other end only Kore holds. A watcher in the command's group waits
# for its end: when Kore dies, by whatever signal, the watcher kills the group. PR_SET_PDEATHSIG
# would reach the program alone and not what it started, and it fires when the thread that forked
# ends, not the process. The program itself replaces this shell and reads from /dev/null.
_WATCH = 'exec 3<&0 </dev/null; (read -r _ <&3; kill -9 0) >/dev/null 2>&1 & exec 3<&-; exec "$@"'


def watched(argv: Sequence[str], moved_to: Path | None = None) -> tuple[str, ...]:
    """The words that run `argv` with a watcher; first moved to a control group, if one is given."""
    if moved_to is None:
        return ("/bin/sh", "-c", _WATCH, "sh", *argv)
    return (
        "/bin/sh",
        "-c",
        f'echo $$ >"$1" || exit 126; shift; {_WATCH}',
        "sh",
        str(moved_to),
        *argv,
    )
