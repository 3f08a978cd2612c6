"""The calls about terminals, for the process that owns the data."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from gateway.terminals.registry import TerminalRegistry
from gateway.terminals.terminal import TerminalSize


class TerminalService:
    """Implements `gateway.control.service.TerminalCalls`."""

    def __init__(self, terminals: TerminalRegistry) -> None:
        self._terminals = terminals

    async def terminal_status(self) -> Mapping[str, Any]:
        return self._terminals.status()

    async def open_terminal(
        self, place: str | None = None, columns: int = 80, rows: int = 24
    ) -> str:
        return await self._terminals.open(place, TerminalSize(columns, rows))

    def follow_terminal(
        self, terminal: str
    ) -> AbstractAsyncContextManager[AsyncIterator[Mapping[str, Any]]]:
        return self._terminals.follow(terminal)

    async def write_terminal(self, terminal: str, text: str) -> None:
        self._terminals.write(terminal, text)

    async def resize_terminal(self, terminal: str, columns: int, rows: int) -> None:
        self._terminals.resize(terminal, TerminalSize(columns, rows))

    async def close_terminal(self, terminal: str) -> None:
        await self._terminals.close(terminal)
