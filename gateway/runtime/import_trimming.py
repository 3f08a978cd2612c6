"""Removal of unused parts of libraries that would take memory for weeks."""

import sys
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
