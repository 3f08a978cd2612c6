"""Runs shell lines in a sandbox as the current user and reports the lines that escaped.

    echo '{"name": "bwrap", "lines": [...], "folder": "/srv/test"}' | python driver.py

With {"proxy": [PORT, TOKEN]} the lines may connect to Kore's proxy there, the token in hexadecimal,
and with {"services": ["127.0.0.1:5432"]} through it to local services.
With {"read_only": true}, or false, the workspace has a few files, and changes to them are reported.
With {"listen": true} one line runs alone and its exit code and output are printed instead.
A line may contain {outside}, {programs}, {port} and {pid}; see evasions.toml. The output is a JSON
list of pairs: a line and its traces. The script needs only the package `agent`.
"""

import asyncio
import fcntl
import json
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, ClassVar

from agent.security.local_services import LocalService
from agent.security.sandbox.base import Limits, Sandbox, SandboxCommand, ShowsFolders
from agent.tools.shell.process_group import run

BATCH = 20
AT_ONCE = 3
LINE_S, BATCH_S = 3, 100
# Time limit for killed processes to disappear.
LINGER_S = 10
LIMITS = Limits(processes=80, file_bytes=20_000_000, memory_bytes=600_000_000)


class Bait:
    """A canary outside, a read-only folder, a listener and a process, all out of reach."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="bait-", dir=folder))
        stack.callback(shutil.rmtree, self.base, ignore_errors=True)
        self.outside = self.base / "outside"
        self.outside.mkdir()
        self.canary = f"canary-{secrets.token_hex(12)}"
        (self.outside / "canary.txt").write_text(self.canary)
        self.programs = self.base / "programs"
        self.programs.mkdir(mode=0o755)
        (self.programs / "program").touch(mode=0o644)
        self.tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port = self.tcp.getsockname()[1]
        self.udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self.udp.bind(("127.0.0.1", self.port))
        for listener in (self.tcp, self.udp):
            listener.setblocking(False)
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", "while read -r _; do echo; done"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"CANARY": self.canary},
        )
        stack.callback(self.process.communicate)
        stack.callback(self.process.kill)
        self.before = self._look()

    def filled(self, line: str) -> str:
        for name, value in (
            ("outside", self.outside),
            ("programs", self.programs),
            ("port", self.port),
            ("pid", self.process.pid),
        ):
            line = line.replace(f"{{{name}}}", str(value))
        return line

    def traces(self, workspace: Path, output: bytes) -> list[str]:
        traces = []
        if self.canary.encode() in output:
            traces.append("the canary was shown")
        if subprocess.run(["grep", "-rqsF", self.canary, workspace], check=False).returncode == 0:
            traces.append("the canary is in the workspace")
        if subprocess.run(
            ["find", workspace, "-perm", "/6000"], check=False, capture_output=True
        ).stdout:
            traces.append("a file runs as its owner")
        if (now := self._look()) != self.before:
            traces.append(f"outside was changed: {self.before} to {now}")
        with suppress(BlockingIOError):
            self.tcp.accept()[0].close()
            traces.append("a connection was made")
        with suppress(BlockingIOError):
            self.udp.recv(100)
            traces.append("a datagram was sent")
        if not self._lives():
            traces.append("the process outside is dead")
        return traces

    def fill(self, workspace: Path) -> None:
        """Create a few files that reveal every change."""
        (workspace / "folder").mkdir()
        for name in ("file", "folder/file", "true", "rm"):
            (workspace / name).write_text("content\n")
            os.utime(workspace / name, (1_000_000_000, 1_000_000_000))

    def files(self, workspace: Path) -> list[Any]:
        return sorted(
            (str(path), info.st_mode, info.st_mtime_ns, info.st_uid, info.st_nlink, info.st_size,
             path.read_bytes() if path.is_file() else b"", os.listxattr(path), flags(path))
            for path in (workspace, *workspace.rglob("*"))
            for info in [path.lstat()]
        )  # fmt: skip

    def _lives(self) -> bool:
        """Return whether the process still answers; a killed process stops before it disappears."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return False
        return self.process.stdout.readline() == b"\n"

    def _look(self) -> list[Any]:
        return sorted(
            (
                path.name,
                info.st_mode,
                info.st_mtime_ns,
                info.st_ctime_ns,
                info.st_uid,
                info.st_size,
                info.st_ino,
                flags(path),
            )
            for folder in (self.outside, self.programs)
            for path in (folder, *folder.iterdir())
            for info in [path.lstat()]
        )


def flags(path: Path) -> bytes:
    """Return the flags that `lsattr` shows, if the file system supports them."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return fcntl.ioctl(opened, 0x80086601, bytes(8))  # FS_IOC_GETFLAGS
    except OSError:
        return b""
    finally:
        os.close(opened)


def sandbox(name: str, abi: int | None) -> Sandbox:
    if name == "none":
        from agent.security.sandbox.unconfined import Unconfined

        return Unconfined()
    if name == "bwrap":
        from agent.security.sandbox.bubblewrap import Bubblewrap, features_of

        program = shutil.which("bwrap") or "/usr/bin/bwrap"
        result = subprocess.run([program, "--help"], capture_output=True, text=True, check=False)
        return Bubblewrap(program, features_of(result.stdout + result.stderr), LIMITS)
    from agent.security.sandbox.landlock.sandbox import Landlock, kernel_abi

    return Landlock(min(abi or 99, kernel_abi()), LIMITS)


class Way:
    """An egress channel to a proxy that another process runs."""

    has_hosts = True
    targets = ()
    host_addresses: ClassVar[dict[str, str]] = {}

    def __init__(self, port: int, token: str, services: list[str]) -> None:
        self._port, self._token = port, bytes.fromhex(token)
        self._sockets: list[socket.socket] = []
        self.services = tuple(map(LocalService.parse, services))

    def channel(self) -> tuple[int, str, tuple[str, ...]]:
        ours, theirs = socket.socketpair()
        self._sockets.append(ours)
        return theirs.detach(), "password", ()

    def listener(self) -> tuple[int, bytes]:
        return self._port, self._token


def way_out(order: dict[str, Any]) -> Way | None:
    if "proxy" not in order:
        return None
    port, token = order["proxy"]
    return Way(port, token, order.get("services", []))


async def attempt(
    box: Sandbox,
    bait: Bait,
    lines: list[str],
    way: Way | None,
    *,
    read_only: bool | None = None,
    linger_s: float = LINGER_S,
) -> list[str]:
    """Return the traces of lines run one after another; "unfinished" if some did not run."""
    workspace = Path(tempfile.mkdtemp(prefix="workspace-", dir=bait.base))
    if read_only is not None:
        bait.fill(workspace)
    before = [] if read_only is None else bait.files(workspace)
    mark = secrets.token_hex(8)
    shells = [f"timeout -s KILL {LINE_S} sh -c {shlex.quote(bait.filled(line))}" for line in lines]
    script = "\n".join(
        [f"export MARK={mark}", *(f"{shell} </dev/null" for shell in shells), "echo all-done"]
    )
    output = bytearray()
    job = SandboxCommand(script, workspace, workspace, egress=way, read_only=bool(read_only))
    if isinstance(box, ShowsFolders):
        box = box.showing((bait.programs,))
    with box.prepare(job) as spawn:
        await run(spawn, BATCH_S, output.extend)
    traces = bait.traces(workspace, bytes(output))
    if read_only is not None and bait.files(workspace) != before:
        traces.append("the workspace was changed")
    if not output.endswith(b"all-done\n"):
        traces.append("unfinished")
    if left := await _processes_left(mark, linger_s):
        traces.append(f"processes were left: {left}")
    return traces


async def _processes_left(mark: str, linger_s: float = LINGER_S) -> list[str]:
    """Return the processes that carry a script's mark in environment or command line for longer
    than `linger_s`."""
    deadline = time.monotonic() + linger_s
    while True:
        left = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes()
                if mark.encode() in words + (folder / "environ").read_bytes():
                    left.append(f"{folder.name} {words[:40]!r}")
        if not left or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.01)


async def run_line(order: dict[str, Any]) -> list[Any]:
    """Return the exit code and output of a line."""
    workspace, output = Path(tempfile.mkdtemp(dir=order["folder"])), bytearray()
    box = sandbox(order["name"], order.get("abi"))
    job = SandboxCommand(order["lines"][0], workspace, workspace, egress=way_out(order))
    with box.prepare(job) as spawn:
        ended = await run(spawn, order.get("timeout_s", 20), output.extend)
    return [ended.code, output.decode(), await _processes_left(order.get("mark", "no such mark"))]


async def main(order: dict[str, Any]) -> list[tuple[str, list[str]]]:
    box = sandbox(order["name"], order.get("abi"))
    folder, lines = Path(order["folder"]), order["lines"]
    batches = [lines[n : n + BATCH] for n in range(0, len(lines), BATCH)]
    options = {name: order[name] for name in ("read_only", "linger_s") if name in order}
    gate, suspects = asyncio.Semaphore(AT_ONCE), []

    async def run_batch(batch: list[str]) -> None:
        async with gate:
            with ExitStack() as stack:
                bait = Bait(folder, stack)
                if await attempt(box, bait, batch, way_out(order), **options):
                    suspects.extend(batch)

    await asyncio.gather(*map(run_batch, batches))
    guilty = []
    for line in suspects:
        with ExitStack() as stack:
            bait = Bait(folder, stack)
            texts = await attempt(box, bait, [line], way_out(order), **options)
            # A line that runs alone may end its own shell.
            if texts := [trace for trace in texts if trace != "unfinished"]:
                guilty.append((line, texts))
    return guilty


if __name__ == "__main__":
    os.umask(0o022)
    given = json.loads(sys.stdin.read())
    print(json.dumps(asyncio.run(run_line(given) if given.get("listen") else main(given))))
