"""Parts of libraries that Kore does not import, through finders on `sys.meta_path`.

A package that a library imports if it happens to be installed can cost more memory than all of
Kore's own code. Nothing here puts a module into `sys.modules`, so every other import in the process
finds its package as usual.
"""

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType

_PLUGIN_LOADER = "pydantic.plugin._loader"


@contextmanager
def hidden(*packages: str) -> Iterator[None]:
    """Make packages look uninstalled to imports of this thread, unless they are already imported.

    Other threads import them as usual, as does this thread after the context ends.
    """
    finder = _Hidden(packages)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def disable_pydantic_plugins() -> None:
    """Let pydantic load `no_pydantic_plugins` as its loader of plug-ins.

    Its own reads the metadata of every installed package: 25 ms and 1.4 MB for each command. Its
    switch, the variable PYDANTIC_DISABLE_PLUGINS, saves half of that and would be inherited by
    commands. A program that has already imported the loader retains it.
    """
    if _PLUGIN_LOADER not in sys.modules:
        sys.meta_path.insert(0, _NoPydanticPlugins())


# These classes do not inherit from `MetaPathFinder`, whose module imports `typing`.
class _Hidden:
    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = packages
        self._thread = threading.get_ident()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if name in self._packages and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"{name} is left out of this import", name=name)


class _NoPydanticPlugins:
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _PLUGIN_LOADER:
            return None
        file = __file__.replace("import_trimming", "no_pydantic_plugins")
        spec = ModuleSpec(name, SourceFileLoader(name, file), origin=file)
        spec.has_location = True
        return spec
