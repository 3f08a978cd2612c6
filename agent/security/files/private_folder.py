"""Folders that their owner alone can enter, with those above them that are not there yet."""

from pathlib import Path


def make_private_folder(folder: Path) -> None:
    """Make a folder and what is missing above it, for its owner only (0700); one that is there
    stays as it is. Raises `OSError`.

    `mkdir(mode=0o700, parents=True)` makes all but the last one readable by everybody.
    """
    for one in reversed((folder, *folder.parents)):
        if not one.is_dir():
            one.mkdir(mode=0o700, exist_ok=True)
