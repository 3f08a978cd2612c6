"""Channel for tokens with a role: answers are stored, and the token's client fetches them."""

import asyncio
from collections.abc import Sequence

from gateway.channels.base import Accept, delivered_event
from gateway.core.event_hub import EventHub
from gateway.core.messages import OutboundMessage, OutboundPart
from gateway.core.token_routes import ACCOUNT, API


class ApiChannel:
    """Channel without waiting readers: clients find the answer in the session."""

    name = API
    account = ACCOUNT

    def __init__(self, watchers: EventHub) -> None:
        self._watchers = watchers

    async def run(self, accept: Accept) -> None:
        """Do nothing: requests arrive through the server."""
        await asyncio.Event().wait()

    def render(self, markdown: str) -> Sequence[OutboundPart]:
        return [OutboundPart(markdown)]

    async def send(self, message: OutboundMessage) -> str:
        self._watchers.publish(message.route.lane, delivered_event(message))
        return f"{message.delivery_id}.{message.part}"
