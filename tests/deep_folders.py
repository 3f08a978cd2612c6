"""Folders nested deeper than the maximum length of a path, which pytest cannot remove."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

LEVELS = 3000
NAME = "n" * 50


@contextmanager
def deep_folders(*folders: Path, levels: int = LEVELS, name: str = NAME) -> Iterator[Sequence[str]]:
    """Create these folders, each with `first.txt` and `levels` nested folders.

    The innermost folder contains `deep.txt`. Yield the names of the levels; on exit, remove
    everything.
    """
    try:
        for folder in folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "first.txt").write_text("first")
            build(folder, levels, name)
        yield [name] * levels
    finally:
        for folder in folders:
            remove(folder)


def build(folder: Path, levels: int = LEVELS, name: str = NAME) -> None:
    innermost = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=innermost)
        below = os.open(name, os.O_RDONLY, dir_fd=innermost)
        os.close(innermost)
        innermost = below
    write("deep.txt", innermost)
    os.close(innermost)


def write(name: str, folder: int) -> None:
    with open(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=folder), "w") as file:
        file.write("deep")


def remove(folder: Path) -> None:
    """Remove a folder with `rm`, which supports deep trees."""
    subprocess.run(["chmod", "-R", "u+rwX", "--", str(folder)], check=False, capture_output=True)
    subprocess.run(["rm", "-rf", "--", str(folder)], check=True)


def depth_of(folder: Path, name: str = NAME) -> int:
    """Return the number of levels; the contents of the innermost are ignored."""
    count, here = 0, os.open(folder, os.O_RDONLY)
    try:
        while True:
            try:
                below = os.open(name, os.O_RDONLY, dir_fd=here)
            except FileNotFoundError:
                return count
            os.close(here)
            here, count = below, count + 1
    finally:
        os.close(here)
