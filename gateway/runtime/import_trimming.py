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


def leave_out_sources() -> None:
    """Let pydantic-settings load only the sources that are used: its command line, the secret
    stores of three clouds and four kinds of files are 0.4 MB and 10 ms."""
    if "pydantic_settings" not in sys.modules:
        for name in _SOURCES:
            unused = _Unused(f"pydantic_settings.sources.providers.{name}")
            sys.modules[unused.__name__] = unused


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


def drop_docstrings(library: ModuleType) -> None:
    """Let go of the documentation that its classes carry: of python-telegram-bot 0.7 MB, whose
    place is taken by what is imported next."""
    for member in vars(library).values():
        if isinstance(member, type) and member.__module__.startswith(f"{library.__name__}."):
            member.__doc__ = None


_SOURCES = ("aws", "azure", "cli", "gcp", "json", "nested_secrets", "pyproject", "toml", "yaml")


class _Unused(ModuleType):
    """Provides every name imported from it, each a class without instances."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        placeholder = type(name, (_NotUsed,), {})
        setattr(self, name, placeholder)
        return placeholder


class _NotUsed:
    def __init__(self, *args: object, **more: object) -> None:
        raise RuntimeError("left out of this program; see gateway/runtime/import_trimming.py")
