"""Fuzzer for one target, which saves the smallest input that crashes it."""

import ast
import hashlib
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.inputs import Make

AT_LEAST = 20
HANG_S = 20
SHRINK_S = 20


@dataclass(frozen=True, slots=True)
class Target:
    """Code that reads foreign input; the function from `open` must not raise for any input.

    `open` gets an empty folder. `make` returns values that a Python literal can represent.
    """

    name: str
    make: Make
    open: Callable[[Path], Callable[[Any], None]]


@dataclass(frozen=True, slots=True)
class Crash:
    """An input, as a Python literal, and the resulting failure."""

    target: str
    literal: str
    trace: str

    def keep(self, folder: Path) -> Path:
        """Write the crash to a file that can be replayed."""
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{self.target}-{hashlib.sha256(self.literal.encode()).hexdigest()[:12]}.txt"
        comment = "".join(f"# {line}\n" for line in self.trace.splitlines())
        (folder / name).write_text(f"# target: {self.target}\n{comment}{self.literal}\n")
        return folder / name


@dataclass(frozen=True, slots=True)
class Outcome:
    target: str
    executions: int
    seconds: float
    slowest_s: float
    crash: Crash | None

    def report(self) -> str:
        """Return one line, preceded by the traceback of a crash."""
        rate = self.executions / max(self.seconds, 0.001)
        end = "CRASH" if self.crash else "no crash"
        line = (
            f"{self.target}: {end}, {self.executions:,} executions in {self.seconds:.0f} s "
            f"({rate:,.0f} a second), the slowest took {self.slowest_s * 1000:.0f} ms"
        )
        return f"{self.crash.trace}\n{line}" if self.crash else line


class Hang(Exception):
    """One execution took longer than HANG_S."""


class _Session:
    """Counter and timer of executions."""

    def __init__(self, work: Callable[[Any], None]) -> None:
        self._work = work
        self.executions = 0
        self.slowest_s = 0.0

    def failure(self, value: Any) -> Exception | None:
        """Return the exception that the target raises for this input."""
        began = time.perf_counter()
        try:
            with _time_limit():
                self._work(value)
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is what we look for
            return exc
        finally:
            self.executions += 1
            self.slowest_s = max(self.slowest_s, time.perf_counter() - began)
        return None

    def shrunk(self, value: Any, failure: Exception) -> Any:
        """Return a shorter text or byte string with the same failure, found within SHRINK_S."""
        until = time.monotonic() + SHRINK_S
        size = len(value) // 2 if isinstance(value, str | bytes) else 0
        while size and time.monotonic() < until:
            for start in range(0, len(value), size):
                shorter = value[:start] + value[start + size :]
                if type(self.failure(shorter)) is type(failure):
                    value = shorter
                    break
            else:
                size //= 2
            size = min(size, len(value))
        return value


def fuzz(target: Target, seconds: float, seed: int, scratch: Path) -> Outcome:
    """Run the target for this number of seconds, or until it crashes."""
    began = time.monotonic()
    session = _Session(target.open(scratch))
    random = Random(f"{seed}/{target.name}")
    crash = None
    while session.executions < AT_LEAST or time.monotonic() - began < seconds:
        value = target.make(random)
        if (failure := session.failure(value)) is not None:
            small = session.shrunk(value, failure)
            again = session.failure(small) or failure
            trace = "".join(traceback.format_exception(again)[-6:]).strip()
            crash = Crash(target.name, repr(small), trace)
            break
    took = time.monotonic() - began
    return Outcome(target.name, session.executions, took, session.slowest_s, crash)


def replay(path: Path) -> None:
    """Run an input saved by `Crash.keep`; raise its exception."""
    from tests.fuzz.targets import TARGETS

    lines = path.read_text().splitlines()
    name = lines[0].removeprefix("# target: ")
    literal = "\n".join(line for line in lines if not line.startswith("#"))
    with tempfile.TemporaryDirectory(prefix="kore-fuzz-") as scratch:
        TARGETS[name].open(Path(scratch))(ast.literal_eval(literal))


@contextmanager
def _time_limit() -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise Hang(f"one execution took longer than {HANG_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
