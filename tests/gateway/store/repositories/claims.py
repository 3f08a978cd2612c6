"""Messages of a chat: storing, claiming and finishing them."""

import itertools
from typing import Any

from agent.types import Message, user
from gateway.commands import is_command
from gateway.core.messages import InboundMessage, Sender
from gateway.store.port import Transaction
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.execution import claims, turns
from gateway.store.repositories.execution.claims import (
    CommandClaim,
    SessionBusy,
    TurnClaim,
)
from gateway.store.repositories.execution.turns import FinishedTurn
from gateway.turns.prompt import build_user_message

LANE = "chat:bot:1"
_numbers = itertools.count(1)


def message_in(text: str, chat: str = "1", **more: Any) -> InboundMessage:
    number = next(_numbers)
    fields = {"event_id": f"{chat}:{number}", "message_id": str(number), **more}
    return InboundMessage("chat", "bot", chat, Sender("7"), content=text, received_at=1.0, **fields)


def take(db: Transaction, *messages: InboundMessage, dead: str | None = None) -> set[str]:
    entries = [InboxEntry(message, dead) for message in messages]
    return inbox.accept(db, InboxBatch("chat", "bot", 5.0), entries)


def claim(db: Transaction, lane: str = LANE) -> TurnClaim | CommandClaim | SessionBusy | None:
    return claims.claim(db, lane, 6.0, is_command, build_user_message)


def claim_turn(db: Transaction, lane: str = LANE) -> TurnClaim:
    turn_claim = claim(db, lane)
    assert isinstance(turn_claim, TurnClaim)
    return turn_claim


def finish(db: Transaction, claimed: TurnClaim) -> None:
    outcome = FinishedTurn([Message("assistant", user("done").content)], [])
    turns.finish(db, claimed.turn, claimed.session, outcome, 7.0)
