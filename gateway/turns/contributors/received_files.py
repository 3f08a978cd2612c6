"""Files of a turn's messages, fetched from the machine that received them."""

from typing import TYPE_CHECKING

from agent.records import frozen
from gateway.turns.prompt import TurnDraft

if TYPE_CHECKING:
    # Needed only if machines share an inbox.
    from gateway.media.shared_inbox import SharedInbox


@frozen
class ReceivedFiles:
    """Implements `PromptContributor` for machines that share an inbox.

    The prompt names files that cannot be fetched.
    """

    inbox: "SharedInbox"

    async def contribute(self, draft: TurnDraft) -> None:
        failures = await self.inbox.bring(draft.claim.messages)
        if failures and not draft.is_resumed:
            draft.append("\n".join(f"[{failure}]" for failure in failures))
        await self.inbox.bring_pictures(draft.conversation.messages)
