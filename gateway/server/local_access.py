"""Ways to the server that runs here, for programs of this person on this machine.

They use a Unix socket, whose other end is the same user for certain, and which nobody else can take
once the server has ended. So no secret is stored.
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
    """The address for programs, and the one for browsers; '' where there is none for them."""

    address: str
    web: str = ""


@contextmanager
def published_access(path: Path, access: ServerAccess) -> Iterator[None]:
    """Keep the ways to the server in a file while it runs."""
    text = json.dumps({"address": access.address, "web": access.web}) + "\n"
    write_atomic(path, text)
    try:
        yield
    finally:
        with suppress(OSError):
            if path.read_text("utf-8") == text:
                path.unlink()


def read_access(path: Path) -> ServerAccess | None:
    """How to reach the server that runs here; None when the file tells of none."""
    try:
        data = json.loads(path.read_bytes())
        return ServerAccess(str(data["address"]), str(data.get("web", "")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise KoreError(t("{path}: cannot be read", path=path)) from exc
