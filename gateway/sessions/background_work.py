"""Background work of conversations: lists, output and termination."""

from collections.abc import Callable, Iterable, Sequence

from agent.agent import Agent
from agent.events import Notice
from agent.i18n import t
from agent.text.visible import escape_invisible
from agent.tools.base import BackgroundTask, TaskOutput
from agent.turn.tool_catalog import started_event
from gateway.core.event_hub import EventHub
from gateway.core.records import TaskInfo
from gateway.presenter.blocks import call_block
from gateway.store.port import Store, Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.execution import subagent_tasks

_MAX_AGENTS = 20
_MAX_STEP_CHARS = 200


def stopped_tasks_text(tasks: Iterable[BackgroundTask], escape: Callable[[str], str] = str) -> str:
    """Return a sentence about tasks that end with their conversation; '' without any."""
    names = [escape(escape_invisible(task.title)) for task in tasks if task.is_running]
    return t("Background tasks stopped: {names}.", names=", ".join(names)) if names else ""


class BackgroundWork:
    """Background work of tools between turns.

    `process` is the number of this process if several run turns. `on_end` informs the others that a
    session's background work has ended.
    """

    def __init__(
        self,
        *,
        agent: Agent,
        database: Store,
        events: EventHub,
        process: int | None = None,
        on_end: Callable[[str], None] = lambda session: None,
    ) -> None:
        self._agent = agent
        self._database = database
        self._events = events
        self._process = process
        self._on_end = on_end
        self._pinned: set[str] = set()

    async def pin(self, session: str) -> None:
        """Pin a session's turns to this process while a command runs in its background.

        No other process could read the command's output or end it.
        """
        if self._process is None:
            return
        is_needed = bool(self.running(session))
        if is_needed == (session in self._pinned):
            return
        process = self._process if is_needed else None
        await self._database.transact(sessions.pin, session, process)
        (self._pinned.add if is_needed else self._pinned.discard)(session)

    def running(self, session: str) -> Sequence[str]:
        """Return the titles of the commands that run in a session."""
        if not self._agent.has_tools:
            return []
        return [task.title for task in self._agent.toolbox.tasks(session) if task.is_running]

    def commands(self, session: str) -> list[TaskInfo]:
        """Return a session's background commands, including ended ones."""
        if not self._agent.has_tools:
            return []
        return [
            TaskInfo(
                task.id,
                "command",
                task.title,
                task.state,
                task.is_running,
                task.began_at,
                last_line=task.last_line,
            )
            for task in self._agent.toolbox.tasks(session)
        ]

    def agents(self, tx: Transaction, session: str) -> list[TaskInfo]:
        """Return the sub-agents of a session: running ones, and the latest ended ones."""
        return [
            TaskInfo(
                f"agent-{subagent_task.id}",
                "agent",
                subagent_task.title,
                subagent_task.state,
                subagent_task.state == "running",
                subagent_task.asked_at,
                subagent_task.ended_at,
                _last_step(tx, subagent_task.session),
                subagent_task.agent,
                subagent_task.session,
            )
            for subagent_task in subagent_tasks.of_session(tx, session, _MAX_AGENTS)
        ]

    def lane_of_agent(self, tx: Transaction, session: str, number: str) -> str | None:
        """Return the chat that a sub-agent of a session works for."""
        task = subagent_tasks.find(tx, number, session)
        return None if task is None else task.root_lane

    def output(self, session: str, task: str, position: int) -> TaskOutput | None:
        """Return a command's output after a position."""
        if not self._agent.has_tools:
            return None
        return self._agent.toolbox.output(session, task, position)

    def kill(self, session: str, task: str) -> bool:
        """End a command; return False if it does not exist."""
        return self._agent.has_tools and self._agent.toolbox.kill(session, task)

    async def end(self, session: str) -> str:
        """End a session's background work in all processes; return a sentence about it, or ''."""
        self._on_end(session)
        return await self.end_here(session)

    async def end_here(self, session: str) -> str:
        """End a session's background work in this process; return a sentence about it, or ''."""
        if not self._agent.has_tools:
            return ""
        sentence = stopped_tasks_text(self._agent.toolbox.tasks(session))
        await self._agent.toolbox.end(session)
        await self.pin(session)
        return sentence

    async def close_if_abandoned(self, session: str, lane: str) -> bool:
        """Return whether the session belongs to a finished one-shot run and gets no more turns.

        Its background work must end then; watching screens get a notice.
        """
        if await self._database.transact(sessions.is_in_use, session):
            return False
        if sentence := stopped_tasks_text(self._agent.toolbox.tasks(session)):
            self._events.publish(lane, Notice("info", sentence))
        return True


def _last_step(tx: Transaction, session: str) -> str:
    """Return a sub-agent's last action or text, on one line."""
    count = sessions.count_messages(tx, session)
    for _, _, message in reversed(sessions.load_after(tx, session, count - 2, 2)):
        if message.tool_calls:
            return call_block(started_event(message.tool_calls[-1])).heading[:_MAX_STEP_CHARS]
        if message.role == "assistant":
            return " ".join(message.text.split())[:_MAX_STEP_CHARS]
    return ""
