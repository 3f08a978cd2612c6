"""`kore` that on SIGUSR2 writes its number of asyncio tasks to `tasks` in its home."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from gateway.__main__ import main


def _write_count(number: int, frame: object) -> None:
    # A signal's handler runs in the main thread, where the loop is.
    count = len(asyncio.all_tasks(asyncio.get_running_loop()))
    part = Path(os.environ["KORE_HOME"]) / "tasks.part"
    part.write_text(str(count))
    part.rename(part.with_name("tasks"))


if __name__ == "__main__":
    signal.signal(signal.SIGUSR2, _write_count)
    sys.exit(main())
