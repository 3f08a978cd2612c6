"""What programs of this person on this machine need to reach the server: its address and a token,
in a file that nobody else can read."""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.errors import KoreError
from agent.i18n import t
from agent.records import frozen
from gateway.config.atomic_write import write_atomic
from gateway.server.tokens import TokenFile

_NAME = "local-programs"


@frozen
class ServerAccess:
    address: str
    token: str


@contextmanager
def published_access(path: Path, tokens: TokenFile, address: str) -> Iterator[ServerAccess]:
    """While the server runs, the file says how to reach it; its token counts no longer."""
    _revoke(tokens)
    access = ServerAccess(address, tokens.add(_NAME, ("admin",)))
    text = json.dumps({"address": access.address, "token": access.token})
    write_atomic(path, text + "\n")
    try:
        yield access
    finally:
        with suppress(OSError):
            if path.read_text("utf-8") == text + "\n":
                path.unlink()
                _revoke(tokens)


def read_access(path: Path) -> ServerAccess | None:
    """How to reach the server that runs here; None when the file tells of none."""
    try:
        data = json.loads(path.read_bytes())
        return ServerAccess(str(data["address"]), str(data["token"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise KoreError(t("{path}: cannot be read", path=path)) from exc


def _revoke(tokens: TokenFile) -> None:
    if any(token.name == _NAME for token in tokens.list()):
        tokens.revoke(_NAME)
