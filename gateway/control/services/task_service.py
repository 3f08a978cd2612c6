"""The calls about what goes on beside conversations, for the process that owns the data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agent.errors import KoreError
from agent.i18n import t
from gateway.bus.bus import MessageBus
from gateway.core.records import TaskInfo
from gateway.sessions import lookup
from gateway.sessions.background_work import BackgroundWork
from gateway.store.port import Store

_AGENT = "agent-"


class TaskService:
    """Implements `gateway.control.service.TaskCalls`."""

    def __init__(self, store: Store, background: BackgroundWork, bus: MessageBus) -> None:
        self._store = store
        self._background = background
        self._lanes = bus

    async def background_tasks(self, session: str) -> Sequence[str]:
        return self._background.running(session)

    async def list_tasks(self, session: str) -> Sequence[TaskInfo]:
        session = await self._store.transact(lookup.find, session)
        agents = await self._store.transact(self._background.agents, session)
        return sorted(
            [*self._background.commands(session), *agents],
            key=lambda task: (task.is_running, task.began_at),
            reverse=True,
        )

    async def read_task(self, session: str, task: str, position: int = 0) -> Mapping[str, Any]:
        session = await self._store.transact(lookup.find, session)
        output = self._background.output(session, task, max(position, 0))
        if output is None:
            raise KoreError(t("no background task is called {task} here", task=task[:40]))
        return asdict(output)

    async def stop_task(self, session: str, task: str) -> str:
        session = await self._store.transact(lookup.find, session)
        number = task.removeprefix(_AGENT)
        if task.startswith(_AGENT):
            lane = await self._store.transact(self._background.lane_of_agent, session, number)
            if lane is not None:
                return await self._lanes.stop_subagent(lane, number)
        elif self._background.kill(session, task):
            return t("Stopping {name} and everything it started.", name=task)
        raise KoreError(t("no background task is called {task} here", task=task[:40]))
