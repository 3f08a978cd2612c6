"""Shell command as a process group that ends with its call, and with Kore."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from io import FileIO

from agent.prompts import load_prompt
from agent.records import frozen
from agent.security.sandbox.base import SpawnSpec, is_parent_watch
from agent.security.sandbox.cgroup import has_run_out_of_memory
from agent.security.sandbox.orphan_processes import process_mark
from agent.tools.shell.resource_limits import CommandMeter

DRAIN_TIMEOUT_S = 0.3
CHUNK_BYTES = 65_536
# Time for a supervisor to end its processes before it is killed itself.
SUPERVISED_TIMEOUT_S = 5.0


@frozen
class Exit:
    """Exit of a command.

    `code` is negative for a signal, None after a timeout. `reason` is a sentence if the command was
    ended because of its resource usage. `left_processes` are the names of processes that it left in
    its group, if the `SpawnSpec` asks for them.
    """

    code: int | None
    reason: str = ""
    left_processes: tuple[str, ...] = ()


async def run(
    spawn: SpawnSpec,
    timeout_s: float | None,
    on_output: Callable[[bytes], None],
    meter: CommandMeter | None = None,
    *,
    on_error: Callable[[bytes], None] | None = None,
    on_timeout: Callable[[int], None] | None = None,
) -> Exit:
    """Run a command prepared by a sandbox.

    Both output streams reach `on_output` in order, unless stderr has its own `on_error`. Returns
    when the command itself has ended: its background processes are killed, and an escaped process
    that keeps the pipe open is not awaited. The same happens after a timeout or when the caller is
    cancelled. `on_timeout` receives the process ID before the process is killed because of the
    timeout. Raises OSError if the command cannot be started.
    """
    alive_r, alive_w = os.pipe()
    out_r, out_w = os.pipe()
    with ExitStack() as stack:
        stack.callback(os.close, out_r)
        err_w = out_w if on_error is None else _open_errors(stack, on_error)
        if spawn.user is not None:
            # Otherwise a command could not open its /dev/stdout.
            for fd in {out_w, err_w}:
                os.fchown(fd, spawn.user, -1)
        alive = stack.enter_context(os.fdopen(alive_w, "wb", buffering=0))
        try:
            process = await asyncio.create_subprocess_exec(
                *spawn.argv,
                stdin=alive_r, stdout=out_w, stderr=err_w,
                cwd=spawn.cwd, env={**spawn.env, **process_mark()}, pass_fds=spawn.pass_fds,
                start_new_session=True,
            )  # fmt: skip
        finally:
            for fd in {alive_r, out_w, err_w}:
                os.close(fd)
            if spawn.resources is not None:
                spawn.resources.close()
        child = _Child(process, alive, spawn.is_supervised)
        try:
            if meter is not None:
                meter.attach(process.pid, child.end)
            end = await _communicate(child, out_r, timeout_s, on_output, on_timeout)
            if spawn.lists_group and end.code is not None:
                names = await asyncio.to_thread(_name_group, process.pid)
                end = replace(end, left_processes=names)
            why = "" if meter is None else meter.end_reason
            if not why and has_run_out_of_memory(spawn.groups):
                why = load_prompt("tools/exec_killed")
            return replace(end, reason=why)
        finally:
            child.end()
            await child.reap()


def _open_errors(stack: ExitStack, on_error: Callable[[bytes], None]) -> int:
    """Return the write end of a pipe whose data reaches `on_error` until the stack ends.

    The write end belongs to the caller.
    """
    err_r, err_w = os.pipe()
    stack.callback(os.close, err_r)
    stack.callback(_OutputReader(err_r, on_error).stop)
    return err_w


async def _communicate(
    child: "_Child",
    fd: int,
    timeout_s: float | None,
    on_output: Callable[[bytes], None],
    on_timeout: Callable[[int], None] | None,
) -> Exit:
    reader = _OutputReader(fd, on_output)
    try:
        code: int | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                code = await child.process.wait()
        if code is None:
            if on_timeout is not None:
                await asyncio.to_thread(on_timeout, child.process.pid)
            child.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_TIMEOUT_S):
                await reader.wait()
        return Exit(code)
    finally:
        reader.stop()


def _name_group(group: int) -> tuple[str, ...]:
    """Return the names of the living processes of this group, without its watcher."""
    names = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            with open(f"/proc/{process}/stat", "rb") as file:
                state, _, process_group = file.read().rpartition(b")")[2].split()[:3]
            if int(process_group) != group or state in (b"Z", b"X"):
                continue
            with open(f"/proc/{process}/cmdline", "rb") as file:
                if is_parent_watch(file.read()):
                    continue
            with open(f"/proc/{process}/comm", "rb") as file:
                names += file.read().decode("ascii", "replace").split()[:1]
    return tuple(names)


@frozen
class _Child:
    """Started process, and the pipe that signals that Kore is alive."""

    process: asyncio.subprocess.Process
    alive: FileIO
    is_supervised: bool

    def end(self) -> None:
        """End the process with all of its descendants."""
        self.alive.close()
        if not self.is_supervised:
            self._kill()

    async def reap(self) -> None:
        """Wait for its end, also while the caller is being cancelled."""
        ended = asyncio.ensure_future(self._wait())
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            await ended
            raise

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(SUPERVISED_TIMEOUT_S):
                await self.process.wait()
        self._kill()
        await self.process.wait()

    def _kill(self) -> None:
        # The group exists as long as its watcher, so its ID is not reused.
        if self.is_supervised and self.process.returncode is not None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)


class _OutputReader:
    """Reader that forwards the data of a pipe; `wait` returns at its end."""

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
