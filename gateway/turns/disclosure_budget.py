"""Stored disclosure budget of a conversation: bits that it may reveal by its choice of links."""

from agent.records import frozen
from agent.security.taint.taint import CHOICE_BITS
from gateway.store.port import Store
from gateway.store.repositories.conversations import sessions


@frozen
class StoredDisclosureBudget:
    """Implements `taint.DisclosureBudget` for a session and its sub-agents.

    It survives restarts, and all turns and sub-agents of the session share it.
    """

    database: Store
    session: str

    async def spend(self, bits: float) -> bool:
        return await self.database.transact(sessions.spend_bits, self.session, bits) <= CHOICE_BITS

    def renew(self) -> None:
        """Do nothing: the turn renews the budget in the transaction that takes in a message.

        Each turn reads the messages of the history again; these must not renew it.
        """
