"""Import of python-telegram-bot without the parts that a bot over aiohttp never uses."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


def leave_out_httpx() -> None:
    """Skip the library's HTTP client and with it httpx, which saves 6 MB.

    Nothing here uses it, since every bot gets a request class over aiohttp.
    """
    # If click is installed, httpx imports its command line, and with it rich and pygments: 5 MB.
    # None makes that import fail, as it does without click.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    name = "telegram.request._httpxrequest"
    if name not in sys.modules:
        unused = ModuleType(name)
        unused.__dict__["HTTPXRequest"] = _UnusedRequest
        sys.modules[name] = unused


@contextmanager
def hidden(package: str) -> Iterator[None]:
    """Make a package look uninstalled during an import.

    The library imports cryptography if available, only for Telegram Passport: 8 MB that nothing
    here uses. Encrypted stores import it themselves, before or after.
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
    """Drop the docstrings of the library's classes, which frees 0.7 MB for later imports."""
    for member in vars(library).values():
        if isinstance(member, type) and member.__module__.startswith(f"{library.__name__}."):
            member.__doc__ = None


class _UnusedRequest:
    def __init__(self, *args: object, **more: object) -> None:
        raise RuntimeError(f"left out of this program; see {__name__}")
