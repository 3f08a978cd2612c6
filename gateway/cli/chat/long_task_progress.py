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
from agent.i18n import t
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
class ProgressFile:
    """Stores the progress of one folder's work: the next command reads what a killed one wrote."""

    path: Path

    def read(self) -> LongTaskProgress:
        """New progress when there is nothing, or nothing usable."""
        try:
            progress = LongTaskProgress(**json.loads(self.path.read_bytes()))
            usable = min(progress.done, progress.cuts, progress.idle, progress.worked_s) >= 0
            ours = progress.lane is None or progress.lane.startswith(ONCE)
        except (OSError, ValueError, TypeError, AttributeError):
            return LongTaskProgress()
        return progress if usable and ours else LongTaskProgress()

    def write(self, progress: LongTaskProgress) -> None:
        """Durable once it returns; a kill leaves the old one or the new one."""
        new_file = self.path.with_suffix(".new")
        with new_file.open("w") as file:
            json.dump(asdict(progress), file)
            file.flush()
            os.fsync(file.fileno())
        new_file.replace(self.path)

    def close(self) -> None:
        """The work came to an end that needs no going on."""
        self.path.unlink(missing_ok=True)


@contextmanager
def open_progress(home: DataDir, folder: Path) -> Iterator[ProgressFile]:
    """The folder's progress file, for one command at a time.

    Raises `ConfigError` while it is in use.
    """
    home.long_work.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    # The lock is a file of its own, which is never replaced. It ends with the process.
    lock = os.open(home.long_work / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                t("a long task is already running in {folder}", folder=folder),
                hint=t("wait for it, or interrupt the other command"),
            ) from None
        yield ProgressFile(home.long_work / f"{name}.json")
    finally:
        os.close(lock)
