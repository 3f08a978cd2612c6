"""Taint of the messages that a turn answers."""

from agent.records import frozen
from agent.security.taint.taint import UNTRUSTED
from gateway.store.port import Store
from gateway.store.repositories.delivery.inbox import taint_of_quotes
from gateway.turns.permissions import TurnPermissions
from gateway.turns.prompt import TurnDraft, shown_taint


@frozen
class MessageTaint:
    """Implements `PromptContributor` for untrusted senders, quotes, files and project context."""

    database: Store
    permissions: TurnPermissions

    async def contribute(self, draft: TurnDraft) -> None:
        messages = draft.claim.messages
        # The taint of a sub-agent includes its task already.
        if draft.reads_workspace and any(map(self.permissions.is_untrusted, messages)):
            draft.taint |= UNTRUSTED
        draft.taint |= shown_taint(messages)
        quoting = [message for message in messages if message.quoted and not message.quoted_own]
        if quoting:
            draft.taint |= await self.database.transact(taint_of_quotes, quoting)
