"""Import in a thread what will be needed in a moment.

aiohttp loads the system's certificates while it is imported, which is half of its time and holds
no lock of Python's: meanwhile the settings are read.
"""

import sys
from importlib import import_module
from threading import Thread


def preload(*modules: str) -> None:
    """Start to import `modules` in a thread. What fails there fails again where it is imported."""
    wanted = [module for module in modules if module not in sys.modules]
    if wanted:
        Thread(target=_import_all, args=(wanted,), name="import-ahead").start()


def _import_all(modules: list[str]) -> None:
    for module in modules:
        try:
            import_module(module)
        except ImportError:
            return
