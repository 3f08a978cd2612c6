"""Memory snapshots for library users: the prompt stays stable while the memory file grows."""

import json
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from agent.records import frozen


@frozen
class MemorySnapshot:
    """Text of a memory file; it is valid until messages past `upto` are summarized."""

    file: str
    text: str
    upto: int = 0


@runtime_checkable
class SnapshotStore(Protocol):
    """Optional capability of a history: store the memory snapshot of a session."""

    async def memory(self, session: str) -> MemorySnapshot | None: ...

    async def set_memory(self, session: str, memory: MemorySnapshot) -> None:
        """Store a snapshot. Called once the messages of a turn are stored."""
        ...


def snapshot_to_json(memory: MemorySnapshot) -> dict[str, Any]:
    return {"file": memory.file, "text": memory.text, "upto": memory.upto}


def snapshot_from_json(line: bytes) -> MemorySnapshot:
    """Return the snapshot in a line. Raise KeyError, TypeError or ValueError if it is invalid."""
    data: Mapping[str, Any] = json.loads(line)
    return MemorySnapshot(str(data["file"]), str(data["text"]), int(data["upto"]))
