"""Terminals of the owner's page, enabled by a setting, limited in number and in idle time."""

import asyncio
import logging
import os
import pwd
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from agent.errors import KoreError, ToolError
from agent.i18n import t
from agent.records import frozen
from agent.security.audit import AuditEntry, AuditSink
from agent.settings import ToolSettings
from gateway.terminals.terminal import ShellJob, ShellRunner, Terminal, TerminalSize

log = logging.getLogger(__name__)

TerminalMode = Literal["off", "sandbox", "full"]
# Exit codes reported for shells without an exit code.
_KILLED, _NOT_STARTED = -9, 126


@frozen
class TerminalLimits:
    """Limits of terminals.

    `running` terminals may exist at a time. A terminal without followers ends after `unfollowed_s`,
    one without input after `idle_s`; both are checked every `look_s`.
    """

    running: int = 8
    unfollowed_s: float = 600
    idle_s: float = 12 * 3600
    look_s: float = 5


class TerminalRegistry:
    """Terminals, which all end when `run` does.

    `find_folder` resolves the name of one of the owner's folders (None is the workspace); it may
    block, and raises `KoreError`.
    """

    def __init__(
        self,
        mode: TerminalMode,
        tools: Callable[[], ToolSettings],
        find_folder: Callable[[str | None], Path],
        memory: Path,
        audit: AuditSink,
        limits: TerminalLimits | None = None,
    ) -> None:
        self._mode = mode
        self._find_folder = find_folder
        self._memory = memory
        self._audit = audit
        self._limits = limits or TerminalLimits()
        self._shells = None if mode == "off" else _open_shells(mode, tools)
        self._terminals: dict[str, Terminal] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Work until cancelled, then end all terminals."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                try:
                    while True:
                        await asyncio.sleep(self._limits.look_s)
                        self._end_unused()
                finally:
                    self._group = None
        finally:
            if self._shells is not None:
                await self._shells.aclose()

    def status(self) -> Mapping[str, Any]:
        """Return `mode`, `user` and `terminals` (oldest first)."""
        return {
            "mode": self._mode,
            "user": pwd.getpwuid(os.geteuid()).pw_name,
            "terminals": [
                {
                    "id": terminal.id,
                    "folder": str(terminal.folder),
                    "started_at": terminal.started_at,
                    "exit_code": terminal.exit_code,
                }
                for terminal in self._terminals.values()
            ],
        }

    async def open(self, place: str | None, size: TerminalSize) -> str:
        """Start a shell and return the terminal's id. Raises `KoreError`."""
        folder = await asyncio.to_thread(self._find_folder, place)
        id = secrets.token_hex(8)
        await self._check(id, folder)
        self._make_room()
        await self._record(id, folder, True, f"opened by the owner; server.terminal: {self._mode}")
        # Nothing is awaited from now on.
        if self._group is None:
            raise KoreError(t("Kore is stopping"))
        self._make_room()
        terminal = self._terminals[id] = Terminal(id, folder, size)
        task = self._group.create_task(self._serve(terminal), name=f"terminal {id}")
        self._tasks[id] = task
        # A task that is cancelled before its first step runs none of its code.
        task.add_done_callback(lambda _: self._forget_task(terminal))
        task.add_done_callback(lambda _: terminal.close(_KILLED))
        return id

    @asynccontextmanager
    async def follow(self, id: str) -> AsyncIterator[AsyncIterator[Mapping[str, Any]]]:
        """Follow a terminal, as `Terminal.follow` does. Raises `KoreError`."""
        async with aclosing(self._find(id).follow()) as items:
            yield items

    def write(self, id: str, text: str) -> None:
        self._find(id).write(text)

    def resize(self, id: str, size: TerminalSize) -> None:
        self._find(id).resize(size)

    async def close(self, id: str) -> None:
        """Kill the shell with all its processes; return when they are gone."""
        self._find(id)
        task = self._tasks.get(id)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        self._terminals.pop(id, None)

    def _find(self, id: str) -> Terminal:
        if id not in self._terminals:
            raise KoreError(t("this terminal has ended"))
        return self._terminals[id]

    async def _check(self, id: str, folder: Path) -> None:
        if self._shells is None:
            await self._record(id, folder, False, "server.terminal is off")
            raise KoreError(
                t("the terminal is switched off"),
                hint=t("`kore config set server.terminal sandbox`, then restart Kore"),
            )
        self._shells.check()

    def _make_room(self) -> None:
        """Forget terminals that have ended. Raises `KoreError` if too many are running."""
        if len(self._tasks) >= self._limits.running:
            raise KoreError(
                t("{count} terminals are open, which is the limit", count=self._limits.running),
                hint=t("close one first"),
            )
        for id, terminal in tuple(self._terminals.items()):
            if terminal.exit_code is not None and not terminal.is_followed:
                del self._terminals[id]

    async def _serve(self, terminal: Terminal) -> None:
        async def record(allowed: bool, reason: str, what: Mapping[str, Any]) -> None:
            await self._record(terminal.id, terminal.folder, allowed, reason, what)

        assert self._shells is not None, "checked when it was opened"
        session = f"terminal {terminal.id}"
        job = ShellJob(terminal.tty, terminal.folder, session, self._memory, record)
        code = _KILLED
        try:
            code = await self._shells.run(job, terminal.show)
        except (ToolError, KoreError) as exc:
            terminal.show(f"{exc}\n".encode())
            code = _NOT_STARTED
        finally:
            self._forget_task(terminal)
            terminal.close(code)
            await self._record_end(terminal)

    async def _record_end(self, terminal: Terminal) -> None:
        reason = f"ended with exit code {terminal.exit_code}"
        try:
            await self._record(terminal.id, terminal.folder, True, reason)
        except KoreError as exc:
            log.warning("the end of terminal %s is not in the audit log: %s", terminal.id, exc)

    def _forget_task(self, terminal: Terminal) -> None:
        self._tasks.pop(terminal.id, None)

    def _end_unused(self) -> None:
        now = time.monotonic()
        for id, terminal in tuple(self._terminals.items()):
            is_left = (
                not terminal.is_followed and now - terminal.left_at > self._limits.unfollowed_s
            )
            if is_left or now - terminal.used_at > self._limits.idle_s:
                if id in self._tasks:
                    log.info("terminal %s ends: nobody uses it", id)
                    self._tasks[id].cancel()
                elif is_left:
                    del self._terminals[id]

    async def _record(
        self,
        id: str,
        folder: Path,
        allowed: bool,
        reason: str,
        what: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        await self._audit.record(
            AuditEntry(
                ts=time.time(),
                agent_id="main",
                role="owner",
                tool="terminal",
                allowed=allowed,
                reason=reason,
                params={"id": id, "path": str(folder), "mode": self._mode, **what},
                session_id="",
            )
        )


def _open_shells(mode: TerminalMode, tools: Callable[[], ToolSettings]) -> ShellRunner:
    # Imported here, because they load the tools for commands, and by default there are no
    # terminals.
    from gateway.terminals.shells import ConfinedShells, UnconfinedShells

    return ConfinedShells(tools) if mode == "sandbox" else UnconfinedShells()
