"""Creation of folders that only their owner can access."""

from pathlib import Path


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents for the owner only (0700). Raises `OSError`.

    An existing folder does not change. `mkdir(mode=0o700, parents=True)` would make all but the
    last one readable by every user.
    """
    for one in reversed((folder, *folder.parents)):
        if not one.is_dir():
            one.mkdir(mode=0o700, exist_ok=True)
