"""Tries a sandbox before it is trusted: commands that really attempt to get out of it."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.errors import ToolError
from agent.frozen import frozen
from agent.prompts import fill
from agent.sandbox import Job, Sandbox, Spawn

_RAN = "the probe ran to its end"
_TIMEOUT_S = 20.0
_GONE_S = 5.0


def probe(sandbox: Sandbox, folder: Path) -> str | None:
    """What is wrong with the sandbox, as a part of a sentence; None when it held.

    `folder` exists and is Kore's own, so that its being out of reach is part of the proof.
    Blocks for a tenth of a second or so.
    """
    with _bait(folder) as bait, socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        script = fill(
            "sandbox/probe",
            canary=str(bait.outside / "canary"),
            written=str(bait.outside / "written"),
            pid=str(bait.process.pid),
            port=str(listener.getsockname()[1]),
            mark=bait.mark,
            inside=str(bait.workspace / "inside"),
            end=_RAN,
        )
        job = Job(script, bait.workspace, bait.workspace)
        try:
            with sandbox.prepare(job) as spawn:
                said = _run(spawn)
        except (ToolError, OSError, subprocess.TimeoutExpired) as exc:
            return f"it does not start ({exc})"
        return _verdict(bait, listener, said)


@frozen
class _Bait:
    """What a command must not reach; `mark` is in the command line of what it leaves behind."""

    workspace: Path
    outside: Path
    canary: str
    mark: str
    process: "subprocess.Popen[bytes]"


@contextmanager
def _bait(folder: Path) -> Iterator[_Bait]:
    # As it stands in /proc: a link on the way would be no part of the proof.
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="probe-", dir=folder)))
    canary, mark = secrets.token_hex(12), secrets.token_hex(12)
    process = subprocess.Popen(
        ["/bin/sh", "-c", "read -r _"], stdin=subprocess.PIPE, env={"CANARY": canary}
    )
    try:
        for name in ("workspace", "outside"):
            (base / name).mkdir()
        (base / "outside" / "canary").write_text(canary)
        yield _Bait(base / "workspace", base / "outside", canary, mark, process)
    finally:
        process.kill()
        process.communicate()
        shutil.rmtree(base, ignore_errors=True)


def _run(spawn: Spawn) -> str:
    with subprocess.Popen(
        spawn.argv, env=spawn.env, cwd=spawn.cwd, pass_fds=spawn.pass_fds,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None, "a pipe was asked for"
        assert process.stdout is not None, "a pipe was asked for"
        # Not `communicate`: it would close the pipe that says that Kore lives.
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TIMEOUT_S)
        process.stdin.close()
        if not spawn.supervised:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait(_TIMEOUT_S)
        os.set_blocking(process.stdout.fileno(), False)
        return (process.stdout.read() or b"").decode("utf-8", "replace")


def _verdict(bait: _Bait, listener: socket.socket, said: str) -> str | None:
    if bait.canary in said:
        return "a command could read what is outside of its workspace"
    if [entry.name for entry in bait.outside.iterdir()] != ["canary"]:
        return "a command could write outside of its workspace"
    if (bait.outside / "canary").read_text() != bait.canary:
        return "a command could change a file outside of its workspace"
    with suppress(BlockingIOError):
        listener.accept()[0].close()
        return "a command could reach the network"
    if bait.process.poll() is not None:
        return "a command could kill a process outside"
    if not _gone(bait.mark):
        return "a command could leave a process behind"
    # Last: whatever it did get, it did not get it by failing.
    if not (bait.workspace / "inside").exists() or _RAN not in said:
        return f"it does not start ({_first_line(said)})"
    return None


def _gone(mark: str) -> bool:
    deadline = time.monotonic() + _GONE_S
    while mark.encode() in b"".join(_command_lines()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _command_lines() -> Iterator[bytes]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as file:
                yield file.read()


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:200] if lines else "it says nothing"
