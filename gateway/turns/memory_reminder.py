"""Asks the model what to keep in memory, with the message that its turn begins with."""

from dataclasses import replace

from agent.agent import Agent
from agent.turn.context_usage import PromptAudience
from agent.turn.memory_reminder import memory_reminder
from gateway.store.port import Store
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.execution.windows import SessionWindow


async def remind(
    database: Store, agent: Agent, claim: TurnClaim, window: SessionWindow, speaking: PromptAudience
) -> None:
    """When the session will soon be summarized. `window` ends with what the turn was asked, which
    no turn has read yet."""
    note = memory_reminder(agent, speaking, window.conversation, claim.taint)
    if note is not None:
        question = window.messages[-1]
        question = replace(question, content=(*question.content, note))
        await database.transact(sessions.amend, claim.session, claim.turn, question)
        window.messages[-1] = question
