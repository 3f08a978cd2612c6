"""A plugin's files, copied: bounded, without what leads out of it."""

import os
import shutil
from pathlib import Path

from agent.i18n import t
from gateway.plugins.errors import PluginError

_MOST_FILES = 10_000
_MOST_BYTES = 256 * 2**20


def copy_plugin(source: Path, target: Path) -> tuple[str, ...]:
    """Copy a folder to a new one; returns the links that were left out: those that lead out of it,
    in a circle or nowhere. Others become what they lead to. Raises `PluginError` for one that is
    too large."""
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
        """`real` is a folder below the root, `above` are those around it, links followed."""
        self._add(0)
        (self._target / relative).mkdir()
        for entry in sorted(os.scandir(real), key=lambda one: one.name):
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
        return not any(_is_of_tools(one) for one in (inner, *inner.parents))

    def _file(self, path: Path, relative: Path) -> None:
        self._add(path.stat().st_size)
        shutil.copyfile(path, self._target / relative, follow_symlinks=False)
        if os.access(path, os.X_OK):
            (self._target / relative).chmod(0o755)

    def _add(self, size_bytes: int) -> None:
        self._count, self._size = self._count + 1, self._size + size_bytes
        if self._count > _MOST_FILES or self._size > _MOST_BYTES:
            raise PluginError(
                t(
                    "the plugin is too large: {most:,} files and 256 MB are the most",
                    most=_MOST_FILES,
                )
            )


def _is_of_tools(path: Path) -> bool:
    """The history of git, which may hold an address with a password, and a cache of npm."""
    return path.name == ".git" or path.parts[-2:] == ("node_modules", ".cache")
