"""Measured facts about a command: its pipeline, the processes that it left, its network attempts.

They are written where the command runs, as lines to a pipe that the command can write to as well.
They are therefore only hints, and consist of numbers and short names.
"""

import fcntl
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Self

from agent.prompts import load_prompt
from agent.records import frozen

# Scripts use the numbers below.
_FIRST_FREE_FD = 10
_MAX_REPORT_BYTES = 65_536
_MAX_NAMES = 8
# The kernel cuts the names of processes at this length.
_NAME = re.compile(r"[\w.+:@-]{1,15}", re.ASCII)
# Counters have 64 bits.
_NUMBER = re.compile(r"[0-9]{1,19}")
# Exit code of a writer whose reader has ended, which is no failure, as in `yes | head`.
_SIGPIPE = 141

# Bash runs it before a command. It reports the exit codes of the last pipeline at the end, unless
# the command replaces the trap.
_PIPELINE_SCRIPT = b"""\
exec {KORE_SCRIPT}<&-
trap "{ printf 'part %s\\n' \\"\\${PIPESTATUS[@]}\\" >&$KORE_REPORT; } 2>/dev/null" EXIT
unset BASH_ENV KORE_REPORT KORE_SCRIPT
"""


@frozen
class NetworkAttempts:
    """Kernel counters of attempts to leave a network without a way out.

    `lookups` are queries to a name server, `unreachable` packets without a route, and `refused`
    connections to closed ports of the network itself.
    """

    lookups: int = 0
    unreachable: int = 0
    refused: int = 0

    def since(self, earlier: "NetworkAttempts") -> "NetworkAttempts":
        """Return the numbers after an earlier count."""
        return NetworkAttempts(
            max(0, self.lookups - earlier.lookups),
            max(0, self.unreachable - earlier.unreachable),
            max(0, self.refused - earlier.refused),
        )


@frozen
class CommandReport:
    """Measured facts about a command.

    `pipeline` contains the exit codes of its last pipeline; `left_processes` the names of processes
    that were still alive when it ended, and were killed. `attempts` is None if they were not
    counted.
    """

    pipeline: tuple[int, ...] = ()
    left_processes: tuple[str, ...] = ()
    attempts: NetworkAttempts | None = None

    @property
    def has_failed_part(self) -> bool:
        """True if a part of the pipeline failed, other than by writing to a closed pipe."""
        return any(code not in (0, _SIGPIPE) for code in self.pipeline)


class ReportPipe:
    """Pipe for the report about one command.

    The command inherits `descriptor`, the pipe, and `script`, which bash reads first. `network` is
    the ID of the process whose network it shares with other commands.
    """

    def __init__(self, network: int | None = None) -> None:
        self._earlier = NetworkAttempts() if network is None else _read_attempts(network)
        self._attempts: NetworkAttempts | None = None
        self._stack = ExitStack()
        # No command can make a writer wait by filling the pipe.
        self._reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._stack.callback(os.close, self._reader)
        self.descriptor = self._move(writer)
        self.script = self._move(os.memfd_create("report"))
        os.write(self.script, _PIPELINE_SCRIPT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def descriptors(self) -> tuple[int, int]:
        return self.descriptor, self.script

    def wrapped(self, argv: Sequence[str], bash: str) -> list[str]:
        """Return the arguments to run a program in its own process namespace and write the report.

        It contains the processes that do not end within a moment after the program (as after a
        process substitution), and the counters of the network namespace.
        """
        # In this mode, bash does not read the script itself but passes it to the command.
        return [
            bash,
            "--posix",
            "-c",
            load_prompt("sandbox/report"),
            "sh",
            str(self.descriptor),
            *argv,
        ]

    def variables(self, command: str, shell: str) -> Mapping[str, str]:
        """Return the variables that make this shell report the command's pipeline."""
        if "|" not in command or not is_bash(shell):
            return {}
        return {
            "BASH_ENV": f"/dev/fd/{self.script}",
            "KORE_REPORT": str(self.descriptor),
            "KORE_SCRIPT": str(self.script),
        }

    def count_attempts(self, pid: int) -> None:
        """Count the attempts of a process that is about to be killed, if it has its own network."""
        with suppress(OSError):
            own = os.stat("/proc/self/ns/net").st_ino
            for process in _descendants(pid):
                if os.stat(f"/proc/{process}/ns/net").st_ino != own:
                    self._attempts = _read_attempts(process)
                    return

    def read(self) -> CommandReport:
        """Return the report; the command must have ended."""
        try:
            lines = os.read(self._reader, _MAX_REPORT_BYTES).decode("ascii", "replace").split("\n")
        except BlockingIOError:
            lines = []
        attempts = self._attempts or _parse_attempts(lines)
        parts = _values(lines, "part")
        return CommandReport(
            tuple(int(code) for code in parts if code.isdigit() and len(code) <= 3),
            distinct_names(_values(lines, "process")),
            None if attempts is None else attempts.since(self._earlier),
        )

    def _move(self, descriptor: int) -> int:
        """Give a descriptor a number that scripts do not use."""
        high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_FD)
        os.close(descriptor)
        self._stack.callback(os.close, high)
        return high


def distinct_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return distinct names of processes to show, at most a few."""
    return tuple(dict.fromkeys(filter(_NAME.fullmatch, names)))[:_MAX_NAMES]


def is_bash(shell: str) -> bool:
    return os.path.basename(shell) == "bash"


def _values(lines: Sequence[str], key: str) -> Iterator[str]:
    return (line[len(key) + 1 :] for line in lines if line.startswith(f"{key} "))


def _read_attempts(pid: int) -> NetworkAttempts:
    """Return the counters of the network that this process uses, or None if it has ended."""
    lines: list[str] = []
    for name in ("snmp", "snmp6"):
        with suppress(OSError), open(f"/proc/{pid}/net/{name}") as file:
            lines += file.read().split("\n")
    return _parse_attempts(lines) or NetworkAttempts()


def _parse_attempts(lines: Sequence[str]) -> NetworkAttempts | None:
    """Return the counters in /proc/net/snmp and /proc/net/snmp6, or None if they are missing."""
    headers: dict[str, Sequence[str]] = {}
    counters: dict[str, int] = {}
    for name, *words in filter(None, map(str.split, lines)):
        if not name.endswith(":"):
            counters[name] = next((int(word) for word in words if _NUMBER.fullmatch(word)), 0)
        elif name not in headers:
            headers[name] = words
        else:
            columns = zip(headers[name], words, strict=False)
            counters |= {
                f"{name}{column}": int(word) for column, word in columns if _NUMBER.fullmatch(word)
            }
    if "Udp:NoPorts" not in counters:
        return None
    return NetworkAttempts(
        counters["Udp:NoPorts"] + counters.get("Udp6NoPorts", 0),
        counters.get("Ip:OutNoRoutes", 0) + counters.get("Ip6OutNoRoutes", 0),
        counters.get("Tcp:AttemptFails", 0),
    )


def _descendants(pid: int) -> Iterator[int]:
    pending = [pid]
    while pending:
        current = pending.pop(0)
        yield current
        with suppress(OSError), open(f"/proc/{current}/task/{current}/children") as file:
            pending += map(int, file.read().split())
