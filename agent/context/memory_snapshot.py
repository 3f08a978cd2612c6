"""The memory that a library user's session began with: its prompt stays while the file grows."""

import json
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from agent.records import frozen


@frozen
class MemorySnapshot:
    """The text of a memory file; it holds until messages past `upto` are told in a summary."""

    file: str
    text: str
    upto: int = 0


@runtime_checkable
class SnapshotStore(Protocol):
    """A history that also keeps what a session's memory was."""

    async def memory(self, session: str) -> MemorySnapshot | None: ...

    async def set_memory(self, session: str, memory: MemorySnapshot) -> None:
        """Called when the messages of a turn are stored."""
        ...


def snapshot_to_json(memory: MemorySnapshot) -> dict[str, Any]:
    return {"file": memory.file, "text": memory.text, "upto": memory.upto}


def snapshot_from_json(line: bytes) -> MemorySnapshot:
    """Raises KeyError, TypeError or ValueError when the line holds none."""
    data: Mapping[str, Any] = json.loads(line)
    return MemorySnapshot(str(data["file"]), str(data["text"]), int(data["upto"]))
