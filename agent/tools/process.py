"""One shell command as a process group that ends with its call, and with Kore."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

DRAIN_S = 0.3
CHUNK_BYTES = 65_536
PASSED = ("PATH", "HOME", "LANG", "TERM", "TZ", "USER", "TMPDIR")
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Standard input is a pipe whose other end only Kore holds. A watcher in the command's group waits
# for its end: when Kore dies, by whatever signal, the watcher kills the group. PR_SET_PDEATHSIG
# would reach the shell alone and not what it started, and it fires when the thread that forked
# ends, not the process. The command itself replaces this shell and reads from /dev/null.
WATCHED = (
    'exec 3<&0 </dev/null; (read -r _ <&3; kill -9 0) >/dev/null 2>&1 & exec 3<&-; exec sh -c "$1"'
)


@dataclass(frozen=True, slots=True)
class Exit:
    """How a command ended; `code` is negative for a signal, None when its time was over."""

    code: int | None


def environment(whole: Mapping[str, str]) -> dict[str, str]:
    """What a command sees of Kore's environment: no variable that could hold a secret."""
    passed = {
        name: value for name, value in whole.items() if name in PASSED or name.startswith("LC_")
    }
    return {"PATH": DEFAULT_PATH, **passed}


async def run(
    command: str, folder: Path, timeout_s: float, on_output: Callable[[bytes], None]
) -> Exit:
    """Run `sh -c command` in `folder`; both output streams reach `on_output` in order.

    Returns when the command itself has ended: what it left in the background is killed, and a
    process that escaped but holds the pipe is not waited for. The same happens at the time-out
    and when the caller is cancelled. Raises OSError when the command cannot be started.
    """
    alive_r, alive_w = os.pipe()
    out_r, out_w = os.pipe()
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                "sh", "-c", WATCHED, "sh", command,
                stdin=alive_r, stdout=out_w, stderr=out_w,
                cwd=folder, env=environment(os.environ), start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(alive_r)
            os.close(out_w)
        try:
            return await _attend(process, out_r, timeout_s, on_output)
        finally:
            _kill_group(process.pid)
            await _reaped(process)
    finally:
        os.close(alive_w)
        os.close(out_r)


async def _attend(
    process: asyncio.subprocess.Process,
    fd: int,
    timeout_s: float,
    on_output: Callable[[bytes], None],
) -> Exit:
    ended = _Reader(fd, on_output)
    try:
        code: int | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                code = await process.wait()
        if code is None:
            _kill_group(process.pid)
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_S):
                await ended.wait()
        return Exit(code)
    finally:
        ended.stop()


class _Reader:
    """Hands over what a pipe brings, as it comes; `wait` returns at its end."""

    def __init__(self, fd: int, on_output: Callable[[bytes], None]) -> None:
        self._fd = fd
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    async def wait(self) -> None:
        await self._end.wait()

    def stop(self) -> None:
        self._loop.remove_reader(self._fd)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, CHUNK_BYTES)
        except BlockingIOError:
            return
        if data:
            self._on_output(data)
        else:
            self.stop()
            self._end.set()


def _kill_group(pid: int) -> None:
    # The group exists as long as its watcher does, so that its number is not somebody else's.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


async def _reaped(process: asyncio.subprocess.Process) -> None:
    """Wait for the killed command, also while the caller is being cancelled."""
    ended = asyncio.ensure_future(process.wait())
    try:
        await asyncio.shield(ended)
    except asyncio.CancelledError:
        await ended
        raise
