"""Run a prepared command to its end in the calling thread, for short queries."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

from agent.security.sandbox.base import SpawnSpec
from agent.security.sandbox.orphan_processes import process_mark

_CHUNK_BYTES = 65_536
_SUPERVISED_TIMEOUT_S = 5.0


def run_briefly(
    spawn: SpawnSpec, timeout_s: float, on_output: Callable[[bytes], None]
) -> int | None:
    """Return the exit code, or None for a command that exceeded the timeout and was killed.

    `on_output` receives the standard output; errors are discarded. Blocks. Raises `OSError` if the
    command cannot be started.
    """
    deadline = time.monotonic() + timeout_s
    with subprocess.Popen(
        spawn.argv, env={**spawn.env, **process_mark()}, cwd=spawn.cwd, pass_fds=spawn.pass_fds,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None, "it was opened as a pipe"
        assert process.stdout is not None, "it was opened as a pipe"
        try:
            if spawn.resources is not None:
                spawn.resources.close()
            poll = select.poll()
            poll.register(process.stdout)
            while (left_s := deadline - time.monotonic()) > 0 and poll.poll(left_s * 1000):
                if not (data := os.read(process.stdout.fileno(), _CHUNK_BYTES)):
                    return process.wait(max(deadline - time.monotonic(), 0))
                on_output(data)
            return None
        except subprocess.TimeoutExpired:
            return None
        finally:
            process.stdin.close()
            if spawn.is_supervised:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_SUPERVISED_TIMEOUT_S)
            # The process group of a supervisor that has ended is gone, and its number may be
            # reused.
            if not spawn.is_supervised or process.poll() is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, signal.SIGKILL)
