"""How far long work has got: kept in Kore's own folder, where no tool reaches."""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from agent.errors import ConfigError
from agent.records import frozen
from gateway.core.messages import ONCE
from gateway.runtime.paths import DataDir


@frozen
class LongTaskProgress:
    """`done` sessions have ended. One has begun on `lane`, after `cuts` tries that were killed;
    the last `idle` ones changed nothing, and all together took `worked_s` seconds. `planning`:
    what has begun is no session yet."""

    done: int = 0
    lane: str | None = None
    cuts: int = 0
    idle: int = 0
    worked_s: float = 0.0
    planning: bool = False


@frozen
class TallyFile:
    """Keeps the tally of one folder's work: what a killed command wrote, the next one reads."""

    path: Path

    def read(self) -> LongTaskProgress:
        """A fresh tally when there is nothing, or nothing usable."""
        try:
            tally = LongTaskProgress(**json.loads(self.path.read_bytes()))
            usable = min(tally.done, tally.cuts, tally.idle, tally.worked_s) >= 0
            ours = tally.lane is None or tally.lane.startswith(ONCE)
        except (OSError, ValueError, TypeError, AttributeError):
            return LongTaskProgress()
        return tally if usable and ours else LongTaskProgress()

    def write(self, tally: LongTaskProgress) -> None:
        """Durable once it returns; a kill leaves the old one or the new one."""
        new_file = self.path.with_suffix(".new")
        with new_file.open("w") as file:
            json.dump(asdict(tally), file)
            file.flush()
            os.fsync(file.fileno())
        new_file.replace(self.path)

    def close(self) -> None:
        """The work came to an end that needs no going on."""
        self.path.unlink(missing_ok=True)


@contextmanager
def open_tally(home: DataDir, folder: Path) -> Iterator[TallyFile]:
    """The folder's tally, for one command at a time. Raises `ConfigError` while another has it."""
    home.long_work.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    # The lock is a file of its own, which is never replaced. It ends with the process.
    lock = os.open(home.long_work / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"long work goes on in {folder} already",
                hint="wait for it, or interrupt the other command",
            ) from None
        yield TallyFile(home.long_work / f"{name}.json")
    finally:
        os.close(lock)
