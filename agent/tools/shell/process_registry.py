"""Registry of background commands, by conversation."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from agent.errors import ToolError
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.tools.base import EndedCommand
from agent.tools.shell.background_process import BackgroundProcess, ProcessOrigin, Work
from agent.tools.shell.resource_limits import ResourceLimits
from agent.tools.shell.session_space import SessionSpaces
from agent.types import Taint

MAX_RUNNING = 64
MAX_PER_SESSION = 8
# Time that a start waits for the command to end immediately.
START_TIMEOUT_S = 0.5


class ProcessRegistry:
    """Background processes; each belongs to a session and has a number in it.

    No process outlives `end` or `aclose`. `meters` measure the resource usage of all commands, also
    of foreground commands; `spaces` are the resources that a session's commands share.
    """

    def __init__(
        self, spaces: SessionSpaces | None = None, meters: ResourceLimits | None = None
    ) -> None:
        self.spaces = spaces or SessionSpaces()
        self._by_session: dict[str, dict[int, BackgroundProcess]] = {}
        self._last: dict[str, int] = {}
        self.meters = meters or ResourceLimits()
        self._tasks: dict[BackgroundProcess, asyncio.Task[None]] = {}

    @property
    def running(self) -> int:
        return sum(process.exit_description is None for process in self._all())

    def of(self, session: str) -> Sequence[BackgroundProcess]:
        """Return the processes of a session, oldest first, including ended ones while there is
        room.
        """
        return list(self._by_session.get(session, {}).values())

    def get(self, session: str, number: int) -> BackgroundProcess:
        """Return a process of a session. Raises `ToolError`."""
        processes = self._by_session.get(session, {})
        if number in processes:
            return processes[number]
        numbers = f"there are {', '.join(map(str, processes))}" if processes else "there are none"
        raise ToolError(
            f"There is no process {number} here; {numbers}. A restart stops all processes."
        )

    async def start(
        self,
        session: str,
        origin: ProcessOrigin,
        work: Work,
        on_end: Callable[[EndedCommand], None] | None = None,
    ) -> BackgroundProcess:
        """Start a process; return once it runs or has already ended.

        Raises `ToolError`. `on_end` is called when the process ends without being killed.
        """
        self._make_room(session)
        number = self._last[session] = self._last.get(session, 0) + 1
        process = BackgroundProcess(number, origin, on_end)
        self._by_session.setdefault(session, {})[number] = process
        task = asyncio.create_task(process.run(work), name=f"process {number} of {session}")
        self._tasks[process] = task
        task.add_done_callback(lambda _: self._tasks.pop(process, None))
        try:
            await asyncio.wait({task}, timeout=START_TIMEOUT_S)
        except asyncio.CancelledError:
            # Its session has ended: no turn reports it.
            await self.kill(process)
            raise
        return process

    async def kill(self, process: BackgroundProcess) -> None:
        """End the process with all of its descendants; return when it is gone."""
        await self._stop([process])

    def request_kill(self, session: str, number: str) -> bool:
        """Request `kill` from any thread; return False if no such process runs.

        A process whose end was requested counts as running: the caller's transaction may be
        repeated, and must get the same answer.
        """
        for process, task in list(self._tasks.items()):
            if str(process.number) == number and process in self.of(session):
                process.is_ending = True
                task.get_loop().call_soon_threadsafe(task.cancel)
                return True
        return any(
            process.is_ending for process in self.of(session) if str(process.number) == number
        )

    async def end(self, session: str) -> None:
        """End and forget the processes of a session."""
        self._last.pop(session, None)
        await self._stop(list(self._by_session.pop(session, {}).values()))
        await asyncio.to_thread(self.spaces.end, session)

    async def aclose(self) -> None:
        """End all processes."""
        await self._stop(list(self._tasks))
        await asyncio.to_thread(self.spaces.close)

    def facts(self, session: str) -> Sequence[str]:
        """Return the running processes, and those whose end was not reported yet."""
        return [
            _describe(process)
            for process in self.of(session)
            if process.exit_description is None or process.has_unreported_end
        ]

    def mark_reported(self, session: str) -> None:
        """Record that a turn with the facts has begun: ended processes are no longer news."""
        for process in self.of(session):
            process.touch()
            if process.is_being_reported:
                process.has_unreported_end = process.is_being_reported = False

    def background_taint(self, workspace: Path) -> frozenset[Taint]:
        """Return the taint of any file of a workspace while processes work there."""
        for process in self._all():
            if (
                process.exit_description is None
                and _overlap(process.origin.workspace, workspace)
                and process.is_exposed
            ):
                return UNTRUSTED
        return NOTHING

    async def _stop(self, processes: Sequence[BackgroundProcess]) -> None:
        tasks = [self._tasks[process] for process in processes if process in self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _all(self) -> list[BackgroundProcess]:
        return [
            process for processes in self._by_session.values() for process in processes.values()
        ]

    def _make_room(self, session: str) -> None:
        """Forget the process that ended first. Raises `ToolError` if too many are running."""
        own = self._by_session.get(session, {})
        if sum(process.exit_description is None for process in own.values()) >= MAX_PER_SESSION:
            raise ToolError(
                f"{MAX_PER_SESSION} processes are running here, which is the limit; kill one first."
            )
        if self.running >= MAX_RUNNING:
            raise ToolError(f"{MAX_RUNNING} background processes are running, which is the limit.")
        while len(own) >= MAX_PER_SESSION:
            del own[
                next(number for number, each in own.items() if each.exit_description is not None)
            ]
        while len(self._all()) >= MAX_RUNNING:
            processes, number = self._oldest_ended()
            del processes[number]

    def _oldest_ended(self) -> tuple[dict[int, BackgroundProcess], int]:
        _, processes, number = min(
            ((each.started_at_s, processes, number)
             for processes in self._by_session.values()
             for number, each in processes.items()
             if each.exit_description is not None),
            key=lambda item: item[0],
        )  # fmt: skip
        return processes, number


def _overlap(left: Path, right: Path) -> bool:
    """Return whether one of two folders contains the other."""
    left, right = left.resolve(), right.resolve()
    return left.is_relative_to(right) or right.is_relative_to(left)


def _describe(process: BackgroundProcess) -> str:
    """Describe a process for the model, to be reported by the beginning turn."""
    process.is_being_reported = process.exit_description is not None
    unread = f", {process.unread_bytes:,} new bytes" if process.unread_bytes else ""
    return f"background process {process.number} ({process.title}): {process.state}{unread}"
