"""Calls about a session's background commands and sub-agents."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agent.errors import KoreError
from agent.i18n import t
from gateway.calls.context import ServiceContext
from gateway.control.declaration import call
from gateway.core.records import TaskInfo

_SUBAGENT_PREFIX = "agent-"


@call(scope="read")
async def background_tasks(ctx: ServiceContext, session: str) -> Sequence[str]:
    """List the names of a session's running background commands and sub-agents."""
    return ctx.background.running(session)


@call(scope="read")
async def list_tasks(ctx: ServiceContext, session: str) -> Sequence[TaskInfo]:
    """List background commands and sub-agents: running tasks first, then the latest finished
    ones."""
    session = await ctx.find_session(session)
    subagents = await ctx.database.transact(ctx.background.agents, session)
    return sorted(
        [*ctx.background.commands(session), *subagents],
        key=lambda task: (task.is_running, task.began_at),
        reverse=True,
    )


@call(scope="read")
async def read_task(
    ctx: ServiceContext, session: str, task: str, position: int = 0
) -> Mapping[str, Any]:
    """Return the output of a command from a byte position on: `text`, `begin` (later than
    `position` if older output was discarded), `end`. The steps of a sub-agent are in its own
    session; use `follow_session`."""
    session = await ctx.find_session(session)
    output = ctx.background.output(session, task, max(position, 0))
    if output is None:
        raise _no_such_task(task)
    return asdict(output)


@call(scope="chat")
async def stop_task(ctx: ServiceContext, session: str, task: str) -> str:
    """Stop a command with all its processes, or a sub-agent; returns a confirmation."""
    session = await ctx.find_session(session)
    number = task.removeprefix(_SUBAGENT_PREFIX)
    if task.startswith(_SUBAGENT_PREFIX):
        lane = await ctx.database.transact(ctx.background.lane_of_agent, session, number)
        if lane is not None:
            return await ctx.bus.stop_subagent(lane, number)
    elif ctx.background.kill(session, task):
        return t("Stopping {name} and everything it started.", name=task)
    raise _no_such_task(task)


def _no_such_task(task: str) -> KoreError:
    return KoreError(t("no background task is called {task} here", task=task[:40]))
