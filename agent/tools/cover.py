"""Which parts of the workspace a command does not get to see, or may not change."""

import os
from pathlib import Path

from agent.frozen import frozen
from agent.security.names import folded
from agent.security.steering import PROMPT_FILES, PROMPT_FOLDERS
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.scope import OWN_FOLDER, PRIVATE_NAMES

# Blocked for file tools, but what would git be without it: commands may read it.
READABLE = ".git"
_PRIVATE = frozenset(folded(name) for name in (*PRIVATE_NAMES, OWN_FOLDER))


@frozen
class Cover:
    """Real paths in the workspace that exist; see `Job`."""

    closed: tuple[Path, ...]
    masked: tuple[Path, ...]
    frozen: tuple[Path, ...]


def cover(settings: ToolSettings, call: CallContext) -> Cover:
    """Kore's own files are closed to everybody, what others told Kore to all but the owner.

    What the system prompt is made of is frozen: file tools change it, and are judged for it.
    Blocked paths are covered at the top of the workspace only.
    """
    root = call.workspace.resolve()
    closed = [Path(os.path.realpath(path)) for path in settings.off_limits]
    frozen = []
    for entry in os.scandir(root):
        name = folded(entry.name)
        if not call.owner and name in _PRIVATE:
            closed.append(root / entry.name)
        elif name in PROMPT_FILES or name in PROMPT_FOLDERS:
            frozen.append(root / entry.name)
    blocked = [root / entry for entry in settings.blocked_paths]
    there = {path for path in blocked if os.path.lexists(path)}
    readable = {path for path in there if path.name == READABLE}
    return Cover(
        closed=tuple(p for p in closed if p.is_relative_to(root) and os.path.lexists(p)),
        masked=tuple(sorted(there - readable)),
        frozen=(*frozen, *sorted(readable)),
    )
