"""File with the tokens and registration of one MCP server, readable by its owner only."""

import asyncio
import fcntl
import json
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from agent.errors import ToolError
from agent.records import frozen
from agent.security.files.private_folder import make_private_folder

log = logging.getLogger(__name__)
_SECRET_KEYS = ("access_token", "refresh_token", "id_token", "client_secret")
_MAX_BYTES = 1_000_000
# Longer than a server may take to renew a token.
_LOCK_TIMEOUT_S = 60.0
_LOCK_POLL_INTERVAL_S = 0.05


class Sealer(Protocol):
    """Encryption of bytes; `place` binds them to their purpose."""

    def seal_bytes(self, data: bytes, place: str) -> bytes: ...

    def unseal_bytes(self, sealed: bytes, place: str) -> bytes:
        """Return the decrypted bytes. Raises `ValueError`."""


class LoginDialog(Protocol):
    """Person who opens the login page and returns the address that it redirects to."""

    @property
    def redirect_uri(self) -> str:
        """URI to which the login page redirects."""

    async def show(self, url: str) -> None:
        """Show the URL of the login page."""

    async def answer(self) -> str:
        """Return the address to which the login page has redirected."""


def _ignore(values: Iterable[str]) -> None:
    """Ignore secrets, for callers without a log."""


@frozen
class LoginOptions:
    """Options for logins.

    `learn` receives the secrets of a login before any other code does. Without a `dialog` a login
    is impossible. `client_id` and `client_secret` were registered with the server beforehand; a URL
    as `client_id` refers to a document about Kore.
    """

    learn: Callable[[Iterable[str]], None] = _ignore
    dialog: LoginDialog | None = None
    client_id: str = ""
    client_secret: str = field(default="", repr=False)


class LoginFile:
    """Login of the server at `url`, encrypted if there is a `sealer`.

    `learn` receives each secret.
    """

    def __init__(
        self,
        path: Path,
        url: str,
        sealer: Sealer | None = None,
        learn: Callable[[Iterable[str]], None] = _ignore,
    ) -> None:
        self._path = path
        self.url = url
        self._sealer = sealer
        self._learn = learn

    def stamp(self) -> tuple[int, int] | None:
        """Return a value that changes with each write; None without a file."""
        try:
            info = self._path.stat()
        except OSError:
            return None
        return info.st_mtime_ns, info.st_ino

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Lock the login against other tasks and processes while the context is open.

        A refresh token may be used only once, and many servers revoke the whole login when it is
        used twice. Raises `ToolError` if another process holds the lock too long, or if the lock
        file cannot be opened.
        """
        path = self._path.with_name("login.lock")
        try:
            make_private_folder(path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(path, flags, 0o600)
        except OSError as exc:
            raise ToolError(f"{path} cannot be opened: {exc.strerror}") from exc
        try:
            await _take_lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def read(self) -> dict[str, Any]:
        """Return the login stored for this URL; empty if it is missing or unreadable."""
        try:
            data = self._path.read_bytes()[:_MAX_BYTES]
        except OSError:
            return {}
        try:
            if self._sealer is not None and not data.startswith(b"{"):
                data = self._sealer.unseal_bytes(data, self._place)
            record = json.loads(data)
            if record["url"] != self.url:
                return {}
            login = dict(record["login"])
        except (ValueError, KeyError, TypeError):
            log.warning("%s cannot be read: log in again", self._path)
            return {}
        self._learn(_secrets(login))
        return login

    def write(self, login: Mapping[str, Any]) -> None:
        """Store a login. Raises `ToolError` if the file cannot be written."""
        self._learn(_secrets(login))
        data = json.dumps({"url": self.url, "login": login}).encode()
        if self._sealer is not None:
            data = self._sealer.seal_bytes(data, self._place)
        part = self._path.with_suffix(f".{os.getpid()}")
        try:
            make_private_folder(self._path.parent)
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self._path)
        except OSError as exc:
            with suppress(OSError):
                part.unlink()
            raise ToolError(f"{self._path} cannot be written: {exc.strerror}") from exc

    def remove(self) -> bool:
        """Remove the file. Return whether it existed."""
        try:
            self._path.unlink()
        except FileNotFoundError:
            return False
        return True

    @property
    def _place(self) -> str:
        return f"mcp login {self.url}"


async def _take_lock(descriptor: int) -> None:
    end_s = time.monotonic() + _LOCK_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end_s:
                text = f"Another process has been renewing this login for {_LOCK_TIMEOUT_S:g} s."
                raise ToolError(text) from None
            await asyncio.sleep(_LOCK_POLL_INTERVAL_S)
        else:
            return


def _secrets(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in _SECRET_KEYS and isinstance(inner, str):
                yield inner
            else:
                yield from _secrets(inner)
