"""Log of a server in the sandbox: its standard error, and Kore's messages about it."""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agent.security.files.private_folder import make_private_folder

_FILE_BYTES = 500_000
# Limits of a server's log output, at once and per second.
_BURST_BYTES = 20_000_000
_BYTES_PER_S = 100_000


class ServerLog:
    """Log file that is cut in half when it is full."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._last_line = self._failure = ""
        self._allowed_bytes, self._counted_at_s = float(_BURST_BYTES), time.monotonic()

    def begin(self) -> None:
        """Record that the server is started."""
        self._last_line = self._failure = ""

    def fail(self, sentence: str) -> None:
        """Record that Kore could not start the server, or had to end it."""
        self._failure = sentence
        self.write(f"[{sentence}]\n".encode())

    def last_words(self) -> str:
        """Return the reason for its end: Kore's message, or the last line that it wrote."""
        if self._failure or not self._last_line:
            return self._failure
        return f"It ended, and its last words were: {self._last_line}"

    def take(self, data: bytes) -> bool:
        """Write the server's output; return False if it never stops."""
        now_s = time.monotonic()
        earned = (now_s - self._counted_at_s) * _BYTES_PER_S
        self._allowed_bytes = min(self._allowed_bytes + earned, _BURST_BYTES) - len(data)
        self._counted_at_s = now_s
        if self._allowed_bytes < 0:
            return False
        self.write(data)
        return True

    def write(self, data: bytes) -> None:
        """Write a message of Kore about the server."""
        path = self._folder() / "log"
        for line in data.decode("utf-8", "replace").splitlines():
            # Messages of Kore are in brackets.
            if line.strip() and not line.startswith("["):
                self._last_line = line.strip()
        with suppress(OSError):
            make_private_folder(path.parent)
            if path.exists() and path.stat().st_size > _FILE_BYTES:
                path.write_bytes(path.read_bytes()[-_FILE_BYTES // 2 :])
            with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as file:
                file.write(data)
