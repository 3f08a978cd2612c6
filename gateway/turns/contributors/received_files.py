"""Fetches the files that a turn's messages brought, where another machine received them."""

from typing import TYPE_CHECKING

from agent.records import frozen
from gateway.turns.prompt import TurnDraft

if TYPE_CHECKING:
    # Only where machines share an inbox.
    from gateway.media.shared_inbox import SharedInbox


@frozen
class ReceivedFiles:
    """Implements `PromptContributor` where machines share an inbox. Files that cannot be fetched
    are named in the prompt."""

    inbox: "SharedInbox"

    async def contribute(self, draft: TurnDraft) -> None:
        failures = await self.inbox.bring(draft.claim.messages)
        if failures and not draft.is_resumed:
            draft.append("\n".join(f"[{failure}]" for failure in failures))
        await self.inbox.bring_pictures(draft.conversation.messages)
