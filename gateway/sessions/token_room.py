"""Limit of unfinished messages per access token."""

from collections.abc import Iterable

from agent.i18n import t
from gateway.core.errors import QueueFull
from gateway.core.messages import InboundMessage
from gateway.core.token_routes import API, MAX_UNFINISHED
from gateway.store.port import Transaction
from gateway.store.repositories.delivery import inbox


def check_room(tx: Transaction, principal: str) -> None:
    """Raise `QueueFull` if too many messages of the token are unfinished."""
    if inbox.unfinished_count(tx, principal) >= MAX_UNFINISHED:
        raise QueueFull(
            t(
                "too many messages of this token are not answered yet (the most: {n})",
                n=MAX_UNFINISHED,
            ),
            hint=t("It was not stored. Send it again later."),
        )


def check_messages(tx: Transaction, messages: Iterable[InboundMessage]) -> None:
    """Raise `QueueFull` if a token's message exceeds its limit; chats have no such limit."""
    for message in messages:
        if message.channel == API:
            check_room(tx, message.principal)
