"""Which of the files below a folder a call may be shown, and their text."""

import os
from pathlib import Path

from agent.errors import ToolError
from agent.security.files import file_io
from agent.security.files.filenames import folded_path
from agent.security.files.globs_part import FilePattern
from agent.security.policy.roles import in_paths
from agent.text.text_document import LIMIT_BYTES, searchable
from agent.text.visible import hidden_character
from agent.tools.base import CallContext
from agent.tools.files.ignore_rules import LIMIT_BYTES as IGNORES_LIMIT_BYTES
from agent.tools.files.ignore_rules import Ignores
from agent.tools.files.workspace_scope import OWN_FOLDER, WorkspaceScope

# What a system call takes (PATH_MAX of Linux, with its end).
_PATH_BYTES = 4_095


class VisibleFiles:
    """Looks at the files below `folder`, which is real and checked, one by one.

    Kore's own folder is left out unless it was asked for.
    """

    def __init__(self, scope: WorkspaceScope, call: CallContext, folder: Path) -> None:
        self.root = call.workspace.resolve()
        self._folder = folder
        self._paths = call.paths
        self._is_closed = scope.closed(call)
        self._ignores = Ignores(self.root, folder, _bytes)
        # A file was left out whose path is longer than any call takes.
        self.is_cut = False
        own = folded_path(self.root / OWN_FOLDER)
        self._own = None if folded_path(folder).is_relative_to(own) else own

    def find(self, name: str, glob: FilePattern | None) -> Path | None:
        """The file `name`, a path seen from the folder; None when it is not to be shown."""
        parts = name.split("/")
        if glob is not None and not glob.matches(parts):
            return None
        if ".." in parts or hidden_character(name) or self._ignores.hides(parts):
            return None
        return self.named(name)

    def named(self, name: str) -> Path | None:
        """The same for a file that was asked for by its name, whatever a `.gitignore` says."""
        path = self._folder / name
        if len(os.fsencode(path)) > _PATH_BYTES:
            self.is_cut = True
            return None
        if self._is_closed(path):
            return None
        if self._own is not None and folded_path(path).is_relative_to(self._own):
            return None
        fits = all(in_paths(path, self.root, scope) for scope in self._paths)
        return path if fits else None

    def told(self, path: Path) -> str:
        """The path as other tools take it: from the workspace on, if it is in there."""
        inside = path.is_relative_to(self.root)
        return str(path.relative_to(self.root)) if inside else str(path)


def lines(path: Path) -> list[str] | None:
    """The lines of a text file; None for what cannot be read, a binary file for example."""
    try:
        data = file_io.read(path, LIMIT_BYTES)
    except ToolError:
        return None
    return searchable(data)


def changed_at(path: Path) -> int:
    """When a file was changed last, in ns; 0 for one that is gone."""
    try:
        return os.lstat(path).st_mtime_ns
    except OSError:
        return 0


def _bytes(path: Path) -> bytes | None:
    try:
        return file_io.read(path, IGNORES_LIMIT_BYTES)
    except ToolError:
        return None
