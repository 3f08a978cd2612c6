"""Which processes of this machine run what."""

from contextlib import suppress
from pathlib import Path


def processes(word: str) -> list[int]:
    """Whose command line holds this; in a sandbox they have other numbers than outside."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if word.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found
