"""`kore.run` and `kore.stream`: one call for an agent that lives as long as one turn."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TypedDict, Unpack

from agent.agent import Agent
from agent.events import Event
from agent.history import History, JsonlHistory
from agent.providers.base import Provider
from agent.security.policy import Approver
from agent.settings import AgentSettings
from agent.tools.base import Tool
from agent.tools.runner import Permissions
from agent.types import Message, Result


class Options(TypedDict, total=False):
    """What `run` and `stream` hand on to `Agent`."""

    tools: Sequence[Tool]
    history: History
    approve: Approver | Permissions
    workspace: str | Path
    settings: AgentSettings


async def run(
    prompt: str | Message,
    *,
    model: str | Provider | None = None,
    session: str | None = None,
    **options: Unpack[Options],
) -> Result:
    """One turn, to its end. Raises the `KoreError` that ended it, if one did.

    `prompt` is text, or a user `Message` with pictures.
    With `session` the turn goes on with that conversation; without `history` it is kept in
    `~/.kore/chats` (`KORE_HOME` moves it). The other options are those of `Agent`.
    """
    async with aclosing(_agent(model, session, options)) as agent:
        return await agent.run(prompt, session=session)


async def stream(
    prompt: str | Message,
    *,
    model: str | Provider | None = None,
    session: str | None = None,
    **options: Unpack[Options],
) -> AsyncGenerator[Event]:
    """`run`, as it happens: the events of the turn, `Done` last. Closing it stops the turn."""
    async with (
        aclosing(_agent(model, session, options)) as agent,
        aclosing(agent.stream(prompt, session=session)) as events,
    ):
        async for event in events:
            yield event


def _agent(model: str | Provider | None, session: str | None, options: Options) -> Agent:
    if session is not None and "history" not in options:
        home = Path(os.environ.get("KORE_HOME") or "~/.kore").expanduser()
        options["history"] = JsonlHistory(home / "chats")
    return Agent(model, **options)
