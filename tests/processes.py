"""Which processes of this machine run what."""

import itertools
import os
from contextlib import suppress
from pathlib import Path

_numbers = itertools.count(1)


def lasting() -> str:
    """A command that lasts, and that no other test of any run on this machine starts."""
    return f"sleep 600.{os.getpid():07}{next(_numbers):03}"


def processes(word: str) -> list[int]:
    """Whose command line holds this; in a sandbox they have other numbers than outside."""
    said = word.replace(" ", "\0").encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if said in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found
