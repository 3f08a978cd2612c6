"""Stored turns and approvals."""

import secrets

from agent.approvals import ApprovalRequest
from agent.types import ToolCall, assistant, user
from gateway.core.approval import ApprovalPrompt
from gateway.store.cipher import Cipher
from gateway.store.port import Transaction
from gateway.store.repositories.access import approvals
from gateway.store.repositories.access.approvals import ApprovalKey
from gateway.store.repositories.access.members import Person
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.execution import claims, turns
from gateway.store.repositories.execution.claims import TurnClaim
from tests.gateway.parts import chat_message

CIPHER = Cipher(secrets.token_bytes(32), "KORE_STORE_KEY")
ASKED = chat_message("hi", event_id="1:1", message_id="1")
CALL = ToolCall("c1", "exec", {"command": "ls"}, '{"command": "ls"}')
OWNER, EVE = Person("telegram", "main", "1", "Ann"), Person("telegram", "main", "2", "Eve")


def begin(tx: Transaction) -> TurnClaim:
    """Claim a turn with a planned call."""
    inbox.accept(
        tx, InboxBatch(ASKED.channel, ASKED.account, 1.0, {"offset": "5"}), [InboxEntry(ASKED)]
    )
    claim = claims.claim(
        tx, ASKED.session_key, 1.0, lambda _: False, lambda m, _: user(m[-1].content)
    )
    assert isinstance(claim, TurnClaim)
    turns.add_reply(
        tx, claim.turn, claim.session, [assistant("I call", (CALL,))], {"c1": "unsafe"}, 1.0
    )
    return claim


def ask(tx: Transaction, claim: TurnClaim) -> tuple[ApprovalKey, ApprovalPrompt]:
    key = ApprovalKey(claim.turn, "c1", claim.session, ASKED.principal, "shown", "bound")
    question = ApprovalPrompt(
        nonce="n1",
        number=0,
        title="exec ls",
        request=ApprovalRequest("exec", {"command": "ls"}, "why"),
        lane=ASKED.session_key,
        session=claim.session,
        asker=ASKED.principal,
        principal=ASKED.principal,
        route=ASKED.route,
        asked_at=1.0,
        expires_at=9.0,
    )
    return key, approvals.open_approval(tx, key, question)
