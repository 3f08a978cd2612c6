"""Which of the workspace's files a call may touch."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ToolError
from agent.security.paths import blocked_entry, resolve, shown
from agent.settings import ToolSettings
from agent.tools.base import CallContext

MEMORY_FOLDER = "memory"
OWNER_MEMORY = "MEMORY.md"
OWNER_PROFILE = "USER.md"


@dataclass(frozen=True, slots=True)
class Scope:
    """Resolves paths for tools, and keeps what one person told Kore from the others.

    A call whose memory is `memory/MEMORY.md` comes from the owner, who may see everything, also
    when tools work in another folder than the workspace that holds the memory.
    Anybody else sees their own memory file and neither the others' nor the owner's profile.
    """

    settings: ToolSettings

    def find(self, path: str, call: CallContext) -> Path:
        """The real path behind `path`. Raises ToolError when the call may not go there."""
        real = resolve(
            path,
            call.workspace,
            restrict=self.settings.restrict_to_workspace,
            blocked=self.settings.blocked_paths,
        )
        if self.is_private(real, call):
            raise ToolError(f"{shown(path)} belongs to somebody else and cannot be used here.")
        return real

    def is_private(self, real: Path, call: CallContext) -> bool:
        """Whether `real` holds what another person told Kore."""
        return _others(call)(real)

    def hidden(self, call: CallContext) -> Callable[["os.DirEntry[str]"], bool]:
        """A test for entries of real folders: whether the call may not know of them."""
        root = call.workspace.resolve()
        others = _others(call)

        def is_hidden(entry: "os.DirEntry[str]") -> bool:
            path = Path(entry.path)
            if not (entry.is_symlink() or entry.is_file() or entry.is_dir()):
                return True
            if not entry.is_symlink():
                return others(path) or bool(blocked_entry(path, root, self.settings.blocked_paths))
            try:
                self.find(entry.path, call)
            except ToolError:
                return True
            return False

        return is_hidden


def _others(call: CallContext) -> Callable[[Path], bool]:
    root = call.workspace.resolve()
    memory = call.memory.resolve()
    if (memory.parent.name, memory.name) == (MEMORY_FOLDER, OWNER_MEMORY):
        return lambda real: False

    def is_private(real: Path) -> bool:
        if real.is_relative_to(root / MEMORY_FOLDER):
            return real not in (memory, memory.parent)
        return real == root / OWNER_PROFILE

    return is_private
