"""Worker processes of this machine, started, restarted and stopped by a gateway."""

import asyncio
import logging
import signal
from collections.abc import Sequence
from contextlib import suppress

log = logging.getLogger(__name__)

# A worker that ends right after its start is restarted after increasing pauses.
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.2, 30.0
_STEADY_S = 30.0
# Time that a worker has to suspend its turns before it is killed.
STOP_TIMEOUT_S = 20.0


async def keep_workers(command: Sequence[str], count: int) -> None:
    """Run `count` workers until cancelled; each gets `--slot` and its number.

    Each has an open pipe as its input and ends when this process is killed.
    """
    async with asyncio.TaskGroup() as group:
        for slot in range(1, count + 1):
            group.create_task(_keep([*command, "--slot", str(slot)], slot), name=f"worker {slot}")


async def _keep(command: Sequence[str], slot: int) -> None:
    loop = asyncio.get_running_loop()
    pause_s = _FIRST_PAUSE_S
    while True:
        began_at = loop.time()
        try:
            status = await _run(command)
        except OSError as exc:
            log.warning("worker process %d cannot be started: %s", slot, exc)
            status = None
        if loop.time() - began_at > _STEADY_S:
            pause_s = _FIRST_PAUSE_S
        if status is not None:
            log.warning("worker process %d ended with status %d; another begins", slot, status)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _MAX_PAUSE_S)


async def _run(command: Sequence[str]) -> int:
    """Run one worker and return its exit code. Raises `OSError` if no process can be created."""
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
    try:
        return await process.wait()
    except asyncio.CancelledError:
        await _stop(process)
        raise


async def _stop(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
