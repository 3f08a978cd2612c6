"""Steering: messages that people send during a turn become part of it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent.security.taint.taint import NOTHING, UNTRUSTED, TaintState
from agent.types import Message, Taint
from gateway.core.messages import InboundMessage
from gateway.store.port import Store
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.conversations.session_marks import taint_of_text
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.repositories.execution.joining import Joining, join_running_turn
from gateway.turns.prompt import build_user_message, is_said, shown_taint

# Time in which further messages belong to the first one, if messages are joined: an answer that has
# just begun is restarted.
BURST_S = 5.0


@dataclass(slots=True, kw_only=True)
class Steering:
    """Steering of one turn.

    `has_new_messages` says whether messages arrived since the claim. A person who steers a turn
    becomes one of its speakers: the policy, questions and taint of the turn include them, also
    after a restart, because the inbox rows belong to the turn.
    """

    database: Store
    claim: TurnClaim
    taint_state: TaintState
    has_new_messages: Callable[[], bool]
    is_untrusted: Callable[[InboundMessage], bool]
    is_command: Callable[[InboundMessage], bool]
    began_at: float = field(default_factory=time.monotonic)
    _accepts_burst: bool = True

    def is_burst(self) -> bool:
        """Return whether messages arrived so soon that they may belong to the question."""
        soon = time.monotonic() - self.began_at < BURST_S
        return self._accepts_burst and soon and not self.claim.resumed and self.has_new_messages()

    async def absorb_new_messages(
        self, results: Sequence[Message], *, burst: bool = False
    ) -> list[Message]:
        """Store new messages and return the messages appended to the history, `results` first."""
        claim = self.claim
        joining = Joining(self.is_command, build_user_message, self._taint, burst=burst)
        steered_messages = await self.database.transact(
            join_running_turn, claim, results, joining, time.time()
        )
        if steered_messages is None:
            # In a burst: a command comes first, or messages are not joined here.
            self._accepts_burst = not burst
            return []
        if any(
            is_said(message) and not self.is_untrusted(message)
            for message in steered_messages.messages
        ):
            await self.database.transact(sessions.renew_bits, claim.session)
        # Before the model reads any of the messages.
        claim.messages.extend(steered_messages.messages)
        self.taint_state.taint |= steered_messages.taint
        return steered_messages.stored

    def _taint(self, messages: Sequence[InboundMessage]) -> frozenset[Taint]:
        taint = UNTRUSTED if any(map(self.is_untrusted, messages)) else NOTHING
        marks = [
            name for message in messages if message.is_report for name in message.options.taint
        ]
        return taint | taint_of_text(",".join(marks)) | shown_taint(messages)
