"""The files of a turn's messages, fetched where another machine has received them."""

from dataclasses import replace
from typing import TYPE_CHECKING

from agent.types import Context, Message
from gateway.store.port import Store
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.execution.claims import TurnClaim

if TYPE_CHECKING:
    from gateway.media.shared_inbox import SharedInbox


async def with_received_files(
    received: "SharedInbox", database: Store, claim: TurnClaim, question: Message
) -> Message:
    """The question of a turn, with what cannot be had; that is stored before it is used."""
    failures = await received.bring(claim.messages)
    if failures and not claim.resumed:
        context = Context("\n".join(f"[{failure}]" for failure in failures))
        question = replace(question, content=(*question.content, context))
        await database.transact(sessions.amend, claim.session, claim.turn, question)
    return question
