"""Addresses of the local server for programs of this person on this machine.

Programs use a Unix socket, whose other end certainly belongs to the same user, and which other
users cannot take over after the server has ended. Therefore no secret is stored.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen
from gateway.config.atomic_write import write_atomic


@frozen
class ServerAccess:
    """Address for programs and `web` address for browsers, '' without one."""

    address: str
    web: str = ""


@contextmanager
def published_access(path: Path, access: ServerAccess) -> Iterator[None]:
    """Publish the server's addresses in a file while it runs."""
    text = json.dumps({"address": access.address, "web": access.web}) + "\n"
    write_atomic(path, text)
    try:
        yield
    finally:
        with suppress(OSError):
            if path.read_text("utf-8") == text:
                path.unlink()


def read_access(path: Path) -> ServerAccess | None:
    """Return the addresses of the local server, or None if no file exists.

    Raises `KoreError` for an unreadable file.
    """
    try:
        data = json.loads(path.read_bytes())
        return ServerAccess(str(data["address"]), str(data.get("web", "")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise KoreError(t("{path}: cannot be read", path=path)) from exc
