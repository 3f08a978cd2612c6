"""Listening Unix socket that only its owner may open."""

import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import t
from gateway.runtime.paths import socket_address

_PROBE_TIMEOUT_S = 1.0


class UnixListener:
    """A socket at `path`, with mode 0600 from the start. A stale file is replaced.

    Raises `KoreError` when a process already listens there or the socket cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with socket_address(path) as address:
                _clear_stale(path, address)
                self.socket = _bound(address)
            self._inode = os.stat(path).st_ino
        except OSError as exc:
            raise KoreError(
                t(
                    "cannot open the control socket {path}: {reason}",
                    path=path,
                    reason=exc.strerror or exc,
                ),
                hint=t("The folder must exist, be writable and be on a local disk."),
            ) from exc

    def remove(self) -> None:
        """Remove the file, unless another process owns it by now. A file that cannot be removed is
        replaced by the next listener."""
        with suppress(OSError):
            if os.stat(self._path).st_ino == self._inode:
                self._path.unlink()


def _bound(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)
    listener.setblocking(False)
    return listener


def _clear_stale(path: Path, address: str) -> None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise KoreError(
            t("{path} exists and is not a socket", path=path), hint=t("Move or delete it.")
        )
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_TIMEOUT_S)
        try:
            probe.connect(address)
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
    raise KoreError(
        t("another Kore is already listening on {path}", path=path),
        hint=t("Stop it first; `kore status` shows it."),
    )
