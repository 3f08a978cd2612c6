"""Tells the model of the project that a chat works in, with the message that a turn begins with."""

from pathlib import Path

from agent.agent import Agent
from gateway.core.messages import CONSOLE
from gateway.store.port import Store, Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.execution.windows import SessionWindow


async def tell_of_project(
    database: Store, agent: Agent, claim: TurnClaim, window: SessionWindow, root: Path
) -> None:
    """As far as the session does not know it. `window` ends with what the turn was asked, which no
    turn has read yet. A terminal tells of its folder itself."""
    message = claim.messages[-1]
    is_elsewhere = message.channel == CONSOLE or message.kind == "subagent_task"
    if is_elsewhere or not agent.workspace.is_project(root):
        return
    from agent.context.project.session_projects import ProjectSession

    *earlier, question = window.messages
    here = ProjectSession(claim.session, root, window.head)
    whole = await agent.projects.with_news(here, question, earlier)
    if whole is question:
        return

    def store(tx: Transaction) -> None:
        sessions.amend(tx, claim.session, claim.turn, whole)
        sessions.add_taint(tx, claim.session, whole.taint)

    await database.transact(store)
    window.messages[-1] = whole
