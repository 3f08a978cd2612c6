"""How much one access token with a role may have under way."""

from collections.abc import Iterable

from agent.i18n import t
from gateway.core.errors import QueueFull
from gateway.core.messages import InboundMessage
from gateway.core.token_routes import API, MOST_UNFINISHED
from gateway.store.port import Transaction
from gateway.store.repositories.delivery import inbox


def check_room(tx: Transaction, principal: str) -> None:
    """Raises `QueueFull` while too many messages of the token's wait or are worked on."""
    if inbox.unfinished_count(tx, principal) >= MOST_UNFINISHED:
        raise QueueFull(
            t(
                "too many messages of this token are not answered yet (the most: {n})",
                n=MOST_UNFINISHED,
            ),
            hint=t("It was not stored. Send it again later."),
        )


def check_messages(tx: Transaction, messages: Iterable[InboundMessage]) -> None:
    """Raises `QueueFull` where one of them has no room; those of chats always have."""
    for message in messages:
        if message.channel == API:
            check_room(tx, message.principal)
