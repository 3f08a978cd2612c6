"""NATS server for a single test, on a free loopback port."""

import json
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes import suspend

PROGRAM = shutil.which("nats-server")
needs_nats = pytest.mark.skipif(PROGRAM is None, reason="nats-server is not installed")
_TIMEOUT_S = 20.0
_POLL_INTERVAL_S = 0.01


class NatsServer:
    """Server that runs from `start` until `kill`, and may be restarted on the same port.

    `options` are command-line options.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder, self._options = folder, options
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        assert PROGRAM is not None
        place = ("-a", "127.0.0.1", "-p", str(self.port), "--ports_file_dir", self._folder)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [PROGRAM, *place, *self._options], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        ports = self._folder / f"nats-server_{self._process.pid}.ports"
        deadline = time.monotonic() + _TIMEOUT_S
        while not _is_whole(ports):
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, "nats-server does not start"
            time.sleep(_POLL_INTERVAL_S)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Send SIGSTOP; `resume` continues the server."""
        assert self._process is not None
        suspend(self._process.pid)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


def _is_whole(ports: Path) -> bool:
    with suppress(FileNotFoundError, json.JSONDecodeError):
        return bool(json.loads(ports.read_text())["nats"])
    return False


def _free_port() -> int:
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        return int(result.getsockname()[1])
