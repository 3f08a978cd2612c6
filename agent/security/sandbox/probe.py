"""Probe that verifies a sandbox by running commands that try to escape from it."""

import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.errors import ToolError
from agent.prompts import render_prompt
from agent.records import frozen
from agent.security.files.folder_tree import scratch_folder
from agent.security.sandbox.base import Sandbox, SandboxCommand, SpawnSpec
from agent.security.sandbox.seccomp.syscalls import ARCHITECTURES, NUMBERS
from agent.security.sandbox.unprivileged_user import is_root

_SOCKET_NAME = "unix_listener"
_CALLS = ("keyctl", "io_uring_setup", "bpf", "unshare")
_END_LINE = "the probe ran to its end"
_TIMEOUT_S = 20.0
_EXIT_TIMEOUT_S = 5.0
_POLL_INTERVAL_S = 0.01


def probe(sandbox: Sandbox, folder: Path) -> str | None:
    """Return a description of what a sandbox fails to confine, or None if it is effective.

    `folder` must exist and belong to Kore, which proves that it is out of reach. Blocks for about a
    tenth of a second.
    """
    with (
        _probe_targets(folder) as targets,
        socket.create_server(("127.0.0.1", 0)) as listener,
        _unix_listener(targets.workspace) as unix_listener,
    ):
        listener.setblocking(False)
        script = render_prompt(
            "sandbox/probe",
            canary=str(targets.outside / "canary"),
            written=str(targets.outside / "written"),
            pid=str(targets.process.pid),
            port=str(listener.getsockname()[1]),
            mark=targets.mark,
            inside=str(targets.workspace / "inside"),
            socket_path=str(targets.workspace / _SOCKET_NAME),
            out=f"{targets.mark}:",
            end=_END_LINE,
            **_numbers(),
        )
        job = SandboxCommand(script, targets.workspace, targets.workspace)
        try:
            with sandbox.prepare(job) as spawn:
                output, users = _run(spawn, targets.mark)
        except (ToolError, OSError, subprocess.TimeoutExpired) as exc:
            return f"it failed to start ({exc})"
        escapes = [
            line.partition(":")[2].strip() for line in output.splitlines() if targets.mark in line
        ]
        if is_root() and 0 in users:
            escapes.append("it ran as root")
        return _verdict(targets, (listener, unix_listener), output, escapes)


def _numbers() -> dict[str, int | None]:
    """Return the system call numbers of this machine."""
    column = list(ARCHITECTURES).index(os.uname().machine)
    return {name: NUMBERS[name][column] for name in _CALLS}


@contextmanager
def _unix_listener(workspace: Path) -> Iterator[socket.socket]:
    """Open a Unix socket in the workspace, with a listener outside of the sandbox."""
    # The whole path may be too long for a socket address.
    folder = os.open(workspace, os.O_PATH | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as unix_listener:
            unix_listener.bind(f"/proc/self/fd/{folder}/{_SOCKET_NAME}")
            unix_listener.listen()
            unix_listener.setblocking(False)
            yield unix_listener
    finally:
        os.close(folder)


@frozen
class _ProbeTargets:
    """Targets that a command must not reach; the command lines of its processes contain `mark`."""

    workspace: Path
    outside: Path
    canary: str
    mark: str
    process: "subprocess.Popen[bytes]"


@contextmanager
def _probe_targets(folder: Path) -> Iterator[_ProbeTargets]:
    # The resolved path, as in /proc: a link in the path would invalidate the proof.
    with scratch_folder("probe-", folder.resolve()) as base:
        canary, mark = secrets.token_hex(12), secrets.token_hex(12)
        process = subprocess.Popen(
            ["/bin/sh", "-c", "read -r _"], stdin=subprocess.PIPE, env={"CANARY": canary}
        )
        try:
            for name in ("workspace", "outside"):
                (base / name).mkdir()
            (base / "outside" / "canary").write_text(canary)
            yield _ProbeTargets(base / "workspace", base / "outside", canary, mark, process)
        finally:
            process.kill()
            process.communicate()


def _run(spawn: SpawnSpec, mark: str) -> tuple[str, set[int]]:
    """Return the output, and the users of its processes."""
    users: set[int] = set()
    deadline = time.monotonic() + _TIMEOUT_S
    with subprocess.Popen(
        spawn.argv, env=spawn.env, cwd=spawn.cwd, pass_fds=spawn.pass_fds,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None, "it was opened as a pipe"
        assert process.stdout is not None, "it was opened as a pipe"
        # `communicate` would close the pipe that shows that Kore is alive.
        while process.poll() is None and time.monotonic() < deadline:
            users |= _users(mark)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_POLL_INTERVAL_S)
        process.stdin.close()
        if not spawn.is_supervised:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.wait(_TIMEOUT_S)
        os.set_blocking(process.stdout.fileno(), False)
        return (process.stdout.read() or b"").decode("utf-8", "replace"), users


def _users(mark: str) -> set[int]:
    """Return the real users of marked processes in a process table of their own."""
    users = set[int]()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/cmdline", "rb") as command_line:
                if mark.encode() not in command_line.read():
                    continue
                with open(f"/proc/{name}/status", encoding="utf-8", errors="replace") as file:
                    lines = dict(line.split(":", 1) for line in file if ":" in line)
                if len(lines.get("NSpid", "").split()) > 1:
                    users.add(int(lines["Uid"].split()[1]))
    return users


def _verdict(
    targets: _ProbeTargets,
    listeners: tuple[socket.socket, socket.socket],
    output: str,
    escapes: list[str],
) -> str | None:
    listener, unix_listener = listeners
    if targets.canary in output:
        return "a command could read files outside its workspace"
    if [entry.name for entry in targets.outside.iterdir()] != ["canary"]:
        return "a command could write outside its workspace"
    if (targets.outside / "canary").read_text() != targets.canary:
        return "a command could change a file outside its workspace"
    with suppress(BlockingIOError):
        listener.accept()[0].close()
        return "a command could reach the network"
    with suppress(BlockingIOError):
        unix_listener.accept()[0].close()
        return "a command could reach a program outside through a Unix socket in the workspace"
    if escapes:
        return f"a command could escape its sandbox: {', '.join(dict.fromkeys(escapes))}"
    if targets.process.poll() is not None:
        return "a command could kill a process outside"
    if not _is_gone(targets.mark):
        return "a command could leave a process behind"
    # Check for failures last: they would make the other checks meaningless.
    if not (targets.workspace / "inside").exists() or _END_LINE not in output:
        return f"it failed to start ({_first_line(output)})"
    return None


def _is_gone(mark: str) -> bool:
    deadline = time.monotonic() + _EXIT_TIMEOUT_S
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
    return lines[0][:200] if lines else "no output"
