"""Progress of long tasks, stored in Kore's own folder, which tools cannot access."""

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
    """Progress of a long task.

    `done` sessions have ended. The current session runs on `lane`, after `cuts` attempts that were
    killed. The last `idle` sessions changed nothing, and all sessions together took `worked_s`
    seconds. `planning` means that the current session writes the plan and is not counted.
    """

    done: int = 0
    lane: str | None = None
    cuts: int = 0
    idle: int = 0
    worked_s: float = 0.0
    planning: bool = False


@frozen
class ProgressFile:
    """Progress file of a folder's task; a later command reads the state of a killed one."""

    path: Path

    def read(self) -> LongTaskProgress:
        """Return the stored progress, or new progress if none is usable."""
        try:
            progress = LongTaskProgress(**json.loads(self.path.read_bytes()))
            is_usable = min(progress.done, progress.cuts, progress.idle, progress.worked_s) >= 0
            is_one_shot = progress.lane is None or progress.lane.startswith(ONCE)
        except (OSError, ValueError, TypeError, AttributeError):
            return LongTaskProgress()
        return progress if is_usable and is_one_shot else LongTaskProgress()

    def write(self, progress: LongTaskProgress) -> None:
        """Write durably and atomically, so that a kill leaves either the old or the new version."""
        new_file = self.path.with_suffix(".new")
        with new_file.open("w") as file:
            json.dump(asdict(progress), file)
            file.flush()
            os.fsync(file.fileno())
        new_file.replace(self.path)

    def close(self) -> None:
        """Delete the file of a task that need not be continued."""
        self.path.unlink(missing_ok=True)


@contextmanager
def open_progress(home: DataDir, folder: Path) -> Iterator[ProgressFile]:
    """Open the progress file of a folder for exclusive use.

    Raises `ConfigError` while another command uses it.
    """
    home.long_work.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    # The lock file is separate, because it is never replaced. The lock ends with the process.
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
