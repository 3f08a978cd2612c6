"""Detection of build products: ignored files that programs create again."""

import os
from pathlib import Path

from agent.security.files.ignore_rules import LIMIT_BYTES, Ignores
from agent.security.files.safe_open import open_regular_beneath

# Compiled Python files (PEP 3147); Python writes no cache tag next to them.
_COMPILED = "__pycache__"
# https://bford.info/cachedir
_CACHE_TAG = "CACHEDIR.TAG"


class BuildProducts:
    """The build products below `root` by the project's current rules. Blocks."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ignores = Ignores(root, root, _read)

    def __contains__(self, path: Path) -> bool:
        if not path.is_relative_to(self._root) or path == self._root:
            return False
        parts = path.relative_to(self._root).parts
        if _COMPILED in parts:
            return True
        folders = [self._root.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
        # The methods of `Path` raise for a closed folder.
        if any(os.path.isfile(folder / _CACHE_TAG) for folder in folders):
            return True
        return self._ignores.hides(parts, is_folder=os.path.isdir(path))


def _read(path: Path) -> bytes | None:
    try:
        with open_regular_beneath(path) as file:
            return file.read(LIMIT_BYTES)
    except OSError:
        return None
