"""A real `kore` in a separate process that skips the cost of imports.

Imports take three quarters of a start's time, and the suite starts `kore` a thousand times. Here
one process for each worker of pytest imports the program, and forks: each child has its own id,
descriptors, signals and exit, like `python -m gateway`. The start without a fork server is tested
in tests/gateway/cli/test_program.py and tests/gateway/end_to_end/test_bad_start.py.

    process = start(["gateway"], cwd=home, env=environ, stdout=log, stderr=log)
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0

Words that begin with `-c` or `-m` run other Python code, as they do for `python`.
"""

import asyncio
import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]
TIMEOUT_S = 60.0
_HEADER = struct.Struct("!I")
# Import in a gateway's order, because that affects the parts of libraries that it leaves out;
# everything else follows.
_FIRST = ("gateway.cli.program", "gateway.cli.verbs.gateway", "gateway.app", "gateway.channels")
_PACKAGES = ("agent", "gateway")
# Variables that Python reads at startup, which is over when a process is forked.
_SETTLED = {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}

_File = int | IO[bytes] | IO[str]


class ForkedProcess:
    """The parts of `asyncio.subprocess.Process` that the tests use, without streams."""

    def __init__(self, pid: int, end: socket.socket) -> None:
        self.pid = pid
        self._returncode: int | None = None
        self.end = end
        end.setblocking(False)

    @property
    def returncode(self) -> int | None:
        """Exit code, or the negative number of the fatal signal, once the process has ended."""
        if self._returncode is None:
            with suppress(BlockingIOError):
                code = self.end.recv(_HEADER.size)
                assert code, "the fork server has ended"
                (self._returncode,) = struct.unpack("!i", code)
                self.end.close()
        return self._returncode

    def send_signal(self, number: int) -> None:
        """Send a signal. Raise `ProcessLookupError` if the process has ended."""
        if self.returncode is not None:
            raise ProcessLookupError
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        loop = asyncio.get_running_loop()
        while (code := self.returncode) is None:
            readable = loop.create_future()
            loop.add_reader(self.end, lambda done=readable: done.done() or done.set_result(None))
            try:
                await readable
            finally:
                loop.remove_reader(self.end)
        return code

    def wait_here(self, timeout_s: float = TIMEOUT_S) -> int:
        """Wait without an event loop. Raise `subprocess.TimeoutExpired`."""
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            if self.returncode is None:
                selector.register(self.end, selectors.EVENT_READ)
            while (code := self.returncode) is None:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise subprocess.TimeoutExpired("kore", timeout_s)
        return code


class PipedProcess(ForkedProcess):
    """A process whose output is read while it runs."""

    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader

    async def communicate(self) -> tuple[bytes, bytes]:
        """Return the remaining output and errors, once the process has ended."""
        out, err, _ = await asyncio.gather(self.stdout.read(), self.stderr.read(), self.wait())
        return out, err


class TalkingProcess(ForkedProcess):
    """A process with pipes for input and output."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader


class ForkServer:
    """Handle of the process that forks, used by the tests."""

    def __init__(
        self, module: str = "tests.fork_server", environ: Mapping[str, str] | None = None
    ) -> None:
        self._one_at_a_time = threading.Lock()
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module],
                stdin=theirs,
                cwd=ROOT,
                env={"PATH": os.environ["PATH"], **_SETTLED, **(environ or {})},
            )

    def start(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        files: tuple[int, int, int],
        new_session: bool = False,
    ) -> ForkedProcess:
        body = json.dumps([list(words), str(cwd), dict(env), new_session]).encode()
        ours, theirs = socket.socketpair()
        with theirs:
            message = _HEADER.pack(len(body)) + body
            fds = [*files, theirs.fileno()]
            with self._one_at_a_time:
                sent = socket.send_fds(self._requests, [message], fds)
                self._requests.sendall(message[sent:])
        pid = ours.recv(_HEADER.size)
        assert pid, "the fork server has ended"
        (number,) = _HEADER.unpack(pid)
        return ForkedProcess(number, ours)

    def close(self) -> None:
        self._requests.close()
        self._process.wait()


def unsettled(env: Mapping[str, str]) -> set[str]:
    """Return the variables that Python reads at startup, so that a fork cannot have them."""
    return {name for name in env if name.startswith("PYTHON") and env[name] != _SETTLED.get(name)}


def start(
    words: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: _File = subprocess.DEVNULL,
    stdout: _File = subprocess.DEVNULL,
    stderr: _File = subprocess.DEVNULL,
    new_session: bool = False,
) -> ForkedProcess:
    """Start `kore` with these words and with `env` as its entire environment.

    Kore does not look for model servers that happen to run on this machine. With "python" as the
    first word, Python itself is started, with `-c CODE` or `-m MODULE`.
    """
    odd = unsettled(env)
    assert not odd, f"{odd} cannot be set for a process that is forked: start Python itself"
    with open(os.devnull, "r+b") as nothing:
        files = [
            nothing.fileno()
            if item == subprocess.DEVNULL
            else item
            if isinstance(item, int)
            else item.fileno()
            for item in (stdin, stdout, stderr)
        ]
        return _server().start(
            list(map(str, words)),
            cwd=cwd,
            env={"KORE_AGENT_FIND_LOCAL_MODELS": "false", **env},
            files=(files[0], files[1], files[2]),
            new_session=new_session,
        )


async def start_piped(
    words: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str]
) -> PipedProcess:
    """Start `kore` with its output in pipes."""
    (out, printing), (err, failing) = os.pipe(), os.pipe()
    started = start(words, cwd=cwd, env=env, stdout=printing, stderr=failing)
    os.close(printing)
    os.close(failing)
    process = PipedProcess(started.pid, started.end)
    process.stdout, process.stderr = await _reader(out), await _reader(err)
    return process


async def start_talking(
    words: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], stderr: _File, limit: int
) -> TalkingProcess:
    """Start `kore` with pipes for input and output; a line of output has at most `limit` bytes."""
    (feed, feeding), (out, printing) = os.pipe(), os.pipe()
    started = start(words, cwd=cwd, env=env, stdin=feed, stdout=printing, stderr=stderr)
    os.close(feed)
    os.close(printing)
    process = TalkingProcess(started.pid, started.end)
    process.stdout = await _reader(out, limit)
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(_PipeProtocol, os.fdopen(feeding, "wb", 0))
    process.stdin = asyncio.StreamWriter(transport, protocol, None, loop)
    return process


class _PipeProtocol(asyncio.streams.FlowControlMixin):
    """Protocol of a writer's pipe: flow control, and notification when it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self._closed = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self._closed.done():
            self._closed.set_result(None)

    def _get_close_waiter(self, stream: asyncio.StreamWriter) -> asyncio.Future[None]:
        return self._closed


async def _reader(fd: int, limit: int = 2**16) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(fd, "rb", 0)
    )
    return reader


def run(
    words: Sequence[str | Path],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: str = "",
    timeout_s: float = TIMEOUT_S,
) -> subprocess.CompletedProcess[str]:
    """Run `kore` to its end; return the same result as `subprocess.run`."""
    streams = [os.pipe() for _ in range(3)]
    (feed, feeding), (out, printing), (err, failing) = streams
    process = start(words, cwd=cwd, env=env, stdin=feed, stdout=printing, stderr=failing)
    for fd in (feed, printing, failing):
        os.close(fd)
    texts = ["", ""]

    def write() -> None:
        with suppress(BrokenPipeError), open(feeding, "wb") as file:
            file.write(stdin.encode())

    def read(n: int, fd: int) -> None:
        with open(fd, encoding="utf-8") as file:
            texts[n] = file.read()

    threads = [
        threading.Thread(target=write),
        threading.Thread(target=read, args=(0, out)),
        threading.Thread(target=read, args=(1, err)),
    ]
    for thread in threads:
        thread.start()
    try:
        code = process.wait_here(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    finally:
        for thread in threads:
            thread.join()
    return subprocess.CompletedProcess(list(map(str, words)), code, *texts)


_servers: list[ForkServer] = []
_beginning = threading.Lock()


def _server() -> ForkServer:
    """Return this process's fork server, started on first use."""
    with _beginning:
        if not _servers:
            _servers.append(ForkServer())
            atexit.register(_servers[0].close)
        return _servers[0]


def _serve() -> list[str]:
    """Fork until no client is left; in the child, return the words of its command line."""
    requests = socket.socket(fileno=os.dup(0))
    wakes, waking = socket.socketpair()
    waking.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(waking.fileno())
    ends: dict[int, socket.socket] = {}
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    selector.register(wakes, selectors.EVENT_READ)
    while True:
        ready = [key.fileobj for key, _ in selector.select()]
        if wakes in ready:
            wakes.recv(4096)
            _reap(ends)
        if requests not in ready:
            continue
        head, fds, _, _ = socket.recv_fds(requests, _HEADER.size, 4)
        if not head:
            os._exit(0)
        body = b""
        (length,) = _HEADER.unpack(head)
        while len(body) < length:
            body += requests.recv(length - len(body))
        words, cwd, env, new_session = json.loads(body)
        if pid := os.fork():
            end = ends[pid] = socket.socket(fileno=fds[3])
            end.sendall(_HEADER.pack(pid))
            for fd in fds[:3]:
                os.close(fd)
            continue
        selector.close()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # An object collected later must not close a descriptor that has been reused.
        for item in (requests, wakes, waking, *ends.values()):
            item.detach()
        _become(fds[:3], cwd, env, new_session=new_session)
        return [str(word) for word in words]


def _reap(ends: dict[int, socket.socket]) -> None:
    """Send the exit status of ended processes to the tests."""
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with ends.pop(pid) as end, suppress(BrokenPipeError):
            end.sendall(struct.pack("!i", os.waitstatus_to_exitcode(status)))


def _become(files: list[int], cwd: str, env: dict[str, str], *, new_session: bool) -> None:
    """Set up a new process as the system and Python do."""
    if new_session:
        os.setsid()
    for number, fd in enumerate(files):
        os.dup2(fd, number)
    os.closerange(3, max(int(name) for name in os.listdir("/dev/fd")) + 1)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.path[0] = cwd
    sys.stdin = sys.__stdin__ = _text(0, "r", "surrogateescape")
    sys.stdout = sys.__stdout__ = _text(1, "w", "surrogateescape")
    sys.stderr = sys.__stderr__ = _text(2, "w", "backslashreplace")


def _text(fd: int, mode: str, errors: str) -> io.TextIOWrapper:
    at_once = mode == "w" and (fd == 2 or os.isatty(fd))
    raw = open(fd, f"{mode}b", closefd=False)  # noqa: SIM115 - it stays open
    return io.TextIOWrapper(raw, "utf-8", errors, line_buffering=at_once)


def _modules() -> Iterator[str]:
    for package in _PACKAGES:
        for module in pkgutil.walk_packages([str(ROOT / package)], f"{package}."):
            if not module.name.endswith("__main__"):
                yield module.name


def _run_kore(words: list[str]) -> int:
    from gateway.__main__ import main as kore

    sys.argv = [str(ROOT / "gateway" / "__main__.py"), *words]
    return kore()


def _run_python(words: list[str]) -> int:
    _, option, program, *arguments = words
    sys.argv = [option, *arguments]
    try:
        if option == "-m":
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            exec(compile(program, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else exc.code is not None
    except BaseException:  # noqa: BLE001 - the process ends like Python
        traceback.print_exc()
        return 1
    return 0


def main() -> int:
    """Serve requests; a forked process ends here with its program."""
    for module in (*_FIRST, *_modules()):
        importlib.import_module(module)
    importlib.import_module("agent.security.policy.policy_file").built_in_roles()
    gc.collect()
    gc.freeze()
    try:
        words = _serve()
    except KeyboardInterrupt:
        return 130
    code = _run_python(words) if words[:1] == ["python"] else _run_kore(words)
    # Exit like Python, but without unloading a thousand modules: that takes longer than most verbs.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
