"""Import of python-telegram-bot without the parts that a bot over aiohttp never uses."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


def leave_out_httpx() -> None:
    """Keep the library's own HTTP client out, and httpx with it: 6 MB that nothing here uses, since
    every bot is given a request class over aiohttp."""
    # httpx imports a command line wherever click is installed, and with it rich and pygments: 5 MB.
    # None makes that import fail, as it does without click.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    name = "telegram.request._httpxrequest"
    if name not in sys.modules:
        unused = ModuleType(name)
        unused.__dict__["HTTPXRequest"] = _UnusedRequest
        sys.modules[name] = unused


@contextmanager
def hidden(package: str) -> Iterator[None]:
    """Let an import believe that a package is not installed.

    The library takes cryptography along wherever it finds it, for Telegram Passport alone: 8 MB
    that nothing here uses. Sealed stores import it themselves, before or after.
    """
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # the import system's mark for "absent"
    try:
        yield
    finally:
        del sys.modules[package]


def drop_docstrings(library: ModuleType) -> None:
    """Drop the documentation that the library's classes carry: 0.7 MB, whose place is taken by
    what is imported next."""
    for member in vars(library).values():
        if isinstance(member, type) and member.__module__.startswith(f"{library.__name__}."):
            member.__doc__ = None


class _UnusedRequest:
    def __init__(self, *args: object, **more: object) -> None:
        raise RuntimeError(f"left out of this program; see {__name__}")
