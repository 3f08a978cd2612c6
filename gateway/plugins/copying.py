"""Bounded copies of plugin folders without links that lead out of them."""

import os
import shutil
from pathlib import Path

from agent.i18n import t
from gateway.plugins.errors import PluginError

_MAX_FILES = 10_000
_MAX_BYTES = 256 * 2**20


def copy_plugin(source: Path, target: Path) -> tuple[str, ...]:
    """Copy a folder to a new one and return the links that were left out.

    These are links that lead out of the folder, are circular or dangling; other links become copies
    of their targets. Raises `PluginError` for a folder that is too large.
    """
    copying = _Copying(source.resolve(), target)
    copying.folder(copying.root, Path(), ())
    return tuple(copying.dropped)


class _Copying:
    def __init__(self, root: Path, target: Path) -> None:
        self.root = root
        self.dropped: list[str] = []
        self._target = target
        self._count = self._size = 0

    def folder(self, real: Path, relative: Path, above: tuple[Path, ...]) -> None:
        """Copy the folder `real` below the root; `above` are its parents with links resolved."""
        self._add(0)
        (self._target / relative).mkdir()
        for entry in sorted(os.scandir(real), key=lambda item: item.name):
            path, name = Path(entry.path), relative / entry.name
            if _is_of_tools(path.relative_to(self.root)):
                continue
            if entry.is_symlink():
                path = path.resolve()
                if not self._may_follow(path, (*above, real)):
                    self.dropped.append(str(name))
                    continue
            if path.is_dir():
                self.folder(path, name, (*above, real))
            elif path.is_file():
                self._file(path, name)

    def _may_follow(self, path: Path, around: tuple[Path, ...]) -> bool:
        if not path.is_relative_to(self.root) or path in around or not path.exists():
            return False
        inner = path.relative_to(self.root)
        return not any(_is_of_tools(parent) for parent in (inner, *inner.parents))

    def _file(self, path: Path, relative: Path) -> None:
        self._add(path.stat().st_size)
        shutil.copyfile(path, self._target / relative, follow_symlinks=False)
        if os.access(path, os.X_OK):
            (self._target / relative).chmod(0o755)

    def _add(self, size_bytes: int) -> None:
        self._count, self._size = self._count + 1, self._size + size_bytes
        if self._count > _MAX_FILES or self._size > _MAX_BYTES:
            raise PluginError(
                t(
                    "the plugin is too large: {most:,} files and 256 MB are the most",
                    most=_MAX_FILES,
                )
            )


def _is_of_tools(path: Path) -> bool:
    """Return whether a folder is git's history, which may contain a password, or npm's cache."""
    return path.name == ".git" or path.parts[-2:] == ("node_modules", ".cache")
