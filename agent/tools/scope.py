"""Which of the workspace's files a call may touch."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ToolError
from agent.security.paths import blocked_entry, resolve, shown
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.output import spill_folder

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
        if self._is_closed(real):
            raise ToolError(f"{shown(path)} is off limits: it is part of Kore itself.")
        if _others(call)(real):
            raise ToolError(f"{shown(path)} belongs to somebody else and cannot be used here.")
        return real

    def hidden(self, call: CallContext) -> Callable[["os.DirEntry[str]"], bool]:
        """A test for entries of real folders: whether the call may not know of them."""
        root = call.workspace.resolve()
        others = _others(call)
        # Whoever was told the name of a kept output may read it; only the owner may look around.
        kept = None if _is_owner(call) else spill_folder(root)

        def is_hidden(entry: "os.DirEntry[str]") -> bool:
            path = Path(entry.path)
            if not (entry.is_symlink() or entry.is_file() or entry.is_dir()):
                return True
            if kept and path.is_relative_to(kept):
                return True
            if not entry.is_symlink():
                blocked = blocked_entry(path, root, self.settings.blocked_paths)
                return bool(blocked) or others(path) or self._is_closed(path)
            try:
                self.find(entry.path, call)
            except ToolError:
                return True
            return False

        return is_hidden

    def _is_closed(self, real: Path) -> bool:
        return any(real.is_relative_to(os.path.realpath(path)) for path in self.settings.off_limits)


def _is_owner(call: CallContext) -> bool:
    memory = call.memory.resolve()
    return (memory.parent.name, memory.name) == (MEMORY_FOLDER, OWNER_MEMORY)


def _others(call: CallContext) -> Callable[[Path], bool]:
    """A test for real paths: whether they hold what another person told Kore."""
    if _is_owner(call):
        return lambda real: False
    root = _folded(call.workspace.resolve())
    memory = _folded(call.memory.resolve())

    def is_private(real: Path) -> bool:
        real = _folded(real)
        if real.is_relative_to(root / MEMORY_FOLDER):
            return real not in (memory, memory.parent)
        return real == _folded(root / OWNER_PROFILE)

    return is_private


def _folded(path: Path) -> Path:
    """Some file systems find USER.md under the name user.md."""
    return Path(str(path).casefold())
