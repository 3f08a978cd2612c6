"""Channels to Kore's own clients: terminals and tokens with a role."""

import asyncio
from collections.abc import Sequence

from gateway.channels.base import Accept, NoViewer, delivered_event
from gateway.core import token_routes
from gateway.core.event_hub import EventHub
from gateway.core.messages import CONSOLE, OutboundMessage, OutboundPart


class ApiChannel:
    """Channel without waiting readers: clients of a token find the answer in the session."""

    name = token_routes.API
    account = token_routes.ACCOUNT

    def __init__(self, watchers: EventHub) -> None:
        self._watchers = watchers

    async def run(self, accept: Accept) -> None:
        """Do nothing: clients submit their messages directly."""
        await asyncio.Event().wait()

    def render(self, markdown: str) -> Sequence[OutboundPart]:
        return [OutboundPart(markdown)]

    async def send(self, message: OutboundMessage) -> str:
        self._watchers.publish(message.route.lane, delivered_event(message))
        return f"{message.delivery_id}.{message.part}"


class ConsoleChannel(ApiChannel):
    """Channel to the terminals that watch a console's lane; without a terminal, answers wait."""

    name = CONSOLE
    account = "local"

    async def send(self, message: OutboundMessage) -> str:
        """Deliver to the watching terminal. Raises `NoViewer` if there is none."""
        if not self._watchers.is_watched(message.route.lane):
            raise NoViewer("no terminal is attached to this console")
        return await super().send(message)
