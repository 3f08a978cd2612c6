"""Import of python-telegram-bot without the parts that a bot over aiohttp never uses."""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
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


class _Hidden(MetaPathFinder):
    """Finder that refuses a package to a thread; other threads import it as usual."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._thread = threading.get_ident()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if name == self._package and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is left out of this import", name=name)


@contextmanager
def hidden(package: str) -> Iterator[None]:
    """Make a package look uninstalled to imports of this thread, unless it is imported already.

    The library imports cryptography if available, only for Telegram Passport: 8 MB that nothing
    here uses. Encrypted stores import it themselves, possibly at the same time.
    """
    finder = _Hidden(package)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def drop_docstrings(library: ModuleType) -> None:
    """Drop the docstrings of the library's classes, which frees 0.7 MB for later imports."""
    for member in vars(library).values():
        if isinstance(member, type) and member.__module__.startswith(f"{library.__name__}."):
            member.__doc__ = None


class _UnusedRequest:
    def __init__(self, *args: object, **more: object) -> None:
        raise RuntimeError(f"left out of this program; see {__name__}")
