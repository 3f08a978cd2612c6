"""Stored sub-agent tasks."""

from agent.subagents.definition import SubagentDefinition
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.execution import subagent_tasks
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.execution.subagent_tasks import SubagentTask
from tests.gateway.store.repositories.claims import message_in, take


def launched(db: Transaction, turn: TurnClaim, lane: str) -> SubagentTask:
    """Create a task of the turn with the message that requests it."""
    session = sessions.create_session(db, "agent:general", 7.0)
    task = subagent_tasks.put(
        db,
        SubagentTask(
            id=0,
            turn_id=turn.turn,
            step=1,
            caller=turn.session,
            caller_lane=lane,
            root_turn=turn.turn,
            root_session=turn.session,
            root_lane=lane,
            depth=1,
            session=session,
            lane=f"task:{session}",
            agent="general",
            definition=SubagentDefinition("general", "", ""),
            title="",
            model=None,
            is_background=True,
            state="running",
            result=None,
            taint=frozenset(),
            asked_at=7.0,
            ended_at=None,
        ),
    )
    values = {"kind": "subagent_task", "task": task.id, "lane": task.lane}
    take(db, message_in("work", event_id=f"task:{task.id}", **values))
    return task
