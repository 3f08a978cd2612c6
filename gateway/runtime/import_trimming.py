"""Removal of unused parts of libraries that would take memory for weeks."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


def leave_out_plugins() -> None:
    """Disable pydantic's search for plug-ins.

    It would read the metadata of every installed package, at a cost of 1 MB. A program that has
    imported pydantic already is left alone.
    """
    if "pydantic" not in sys.modules:
        loader = ModuleType("pydantic.plugin._loader")
        loader.__dict__["get_plugins"] = tuple
        sys.modules[loader.__name__] = loader


def leave_out_sources() -> None:
    """Load only the sources of pydantic-settings that are used.

    Its command line, the secret stores of three clouds and four kinds of files take 0.4 MB and 10
    ms.
    """
    if "pydantic_settings" not in sys.modules:
        for name in _SOURCES:
            unused = _Unused(f"pydantic_settings.sources.providers.{name}")
            sys.modules[unused.__name__] = unused


def leave_out_httpx() -> None:
    """Keep python-telegram-bot from importing its HTTP client.

    It takes 6 MB with httpx, and every bot here gets a request class over aiohttp.
    """
    name = "telegram.request._httpxrequest"
    if name not in sys.modules:
        unused = ModuleType(name)
        unused.__dict__["HTTPXRequest"] = _NotUsed
        sys.modules[name] = unused


@contextmanager
def hidden(package: str) -> Iterator[None]:
    """Make a package look as if it were not installed.

    python-telegram-bot imports cryptography where it is installed, for Telegram Passport only, at a
    cost of 8 MB. Sealed stores import it themselves, before or afterwards.
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
    """Drop the docstrings of a library's classes; those of python-telegram-bot take 0.7 MB."""
    for member in vars(library).values():
        if isinstance(member, type) and member.__module__.startswith(f"{library.__name__}."):
            member.__doc__ = None


_SOURCES = ("aws", "azure", "cli", "gcp", "json", "nested_secrets", "pyproject", "toml", "yaml")


class _Unused(ModuleType):
    """Module that provides every name imported from it, each as a class without instances."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        placeholder = type(name, (_NotUsed,), {})
        setattr(self, name, placeholder)
        return placeholder


class _NotUsed:
    def __init__(self, *args: object, **more: object) -> None:
        raise RuntimeError("left out of this program; see gateway/runtime/import_trimming.py")
