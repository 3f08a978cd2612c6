"""The calls about what is beside conversations, for the process that owns the data."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from gateway.control.services.owner_audit import OwnerAudit


class WorkbenchData(Protocol):
    """Costs, settings, logs, audit trail and notes."""

    async def list_costs(self, days: int) -> Sequence[Mapping[str, Any]]: ...

    def describe_config(self) -> Mapping[str, Any]: ...

    def read_log(self, lines: int, level: str) -> Sequence[Mapping[str, Any]]: ...

    def list_audit(self, limit: int) -> Sequence[Mapping[str, Any]]: ...

    def read_note(self, name: str) -> Mapping[str, Any]: ...

    def write_note(self, name: str, text: str, digest: str) -> Mapping[str, Any]: ...


class WorkbenchService:
    """Implements `screen_calls.WorkbenchCalls`, on data that is opened for each call."""

    def __init__(self, open_data: Callable[[], WorkbenchData], audit: OwnerAudit) -> None:
        self._open_data = open_data
        self._note_audit = audit

    async def list_costs(self, days: int = 30) -> Sequence[Mapping[str, Any]]:
        return await self._open_data().list_costs(days)

    async def describe_config(self) -> Mapping[str, Any]:
        return self._open_data().describe_config()

    async def read_log(self, lines: int = 200, level: str = "info") -> Sequence[Mapping[str, Any]]:
        return await asyncio.to_thread(self._open_data().read_log, lines, level)

    async def list_audit(self, limit: int = 100) -> Sequence[Mapping[str, Any]]:
        return await asyncio.to_thread(self._open_data().list_audit, limit)

    async def read_note(self, name: str) -> Mapping[str, Any]:
        return await asyncio.to_thread(self._open_data().read_note, name)

    async def write_note(self, name: str, text: str, digest: str) -> Mapping[str, Any]:
        async with self._note_audit.change("file", "write", path=name):
            return await asyncio.to_thread(self._open_data().write_note, name, text, digest)
