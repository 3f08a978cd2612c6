"""What libraries take along and nothing here uses: left out, so that it is not held for weeks."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


def leave_out_plugins() -> None:
    """Let pydantic look for no plug-ins: it would read what every installed package says of
    itself, and import for that, together 1 MB. A program that has pydantic already keeps them."""
    if "pydantic" not in sys.modules:
        loader = ModuleType("pydantic.plugin._loader")
        loader.__dict__["get_plugins"] = tuple
        sys.modules[loader.__name__] = loader


def leave_out_httpx() -> None:
    """python-telegram-bot imports its own HTTP client, and httpx with it: 6 MB that nothing here
    uses, since every bot is given a request class over aiohttp."""
    name = "telegram.request._httpxrequest"
    if name not in sys.modules:
        unused = ModuleType(name)
        unused.__dict__["HTTPXRequest"] = _NotUsed
        sys.modules[name] = unused


@contextmanager
def hidden(package: str) -> Iterator[None]:
    """Let an import believe that a package is not installed.

    python-telegram-bot takes cryptography along wherever it finds it, for Telegram Passport alone:
    8 MB that nothing here uses. Sealed stores import it themselves, before or after.
    """
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment]  # the import system's mark for "absent"
    try:
        yield
    finally:
        del sys.modules[package]


class _NotUsed:
    def __init__(self, *args: object, **more: object) -> None:
        raise RuntimeError("a bot was made without its request class")
