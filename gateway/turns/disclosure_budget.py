"""What a conversation may still tell strangers by the choice of links, kept in the store."""

from agent.records import frozen
from agent.security.taint.taint import CHOICE_BITS
from gateway.store.port import Store
from gateway.store.repositories.conversations import sessions


@frozen
class StoredDisclosureBudget:
    """Implements `taint.DisclosureBudget` for a session and its sub-agents.

    It survives restarts, and every turn and sub-agent of the session spends from the same.
    """

    database: Store
    session: str

    async def spend(self, bits: float) -> bool:
        return await self.database.transact(sessions.spend_bits, self.session, bits) <= CHOICE_BITS

    def renew(self) -> None:
        """Do nothing: the turn renews the budget in its transaction when it takes in a message.

        Messages of the history are seen again by each turn and must not renew it.
        """
