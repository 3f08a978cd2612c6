"""Terminal as a channel: answers are delivered while a terminal watches."""

import asyncio
from collections.abc import Sequence

from gateway.channels.base import Accept, NoViewer, delivered_event
from gateway.core.event_hub import EventHub
from gateway.core.messages import CONSOLE, OutboundMessage, OutboundPart


class ConsoleChannel:
    """Channel to the terminals that watch a console's lane; without one, answers wait."""

    name = CONSOLE
    account = "local"

    def __init__(self, watchers: EventHub) -> None:
        self._watchers = watchers

    async def run(self, accept: Accept) -> None:
        """Do nothing: consoles submit their messages directly."""
        await asyncio.Event().wait()

    def render(self, markdown: str) -> Sequence[OutboundPart]:
        return [OutboundPart(markdown)]

    async def send(self, message: OutboundMessage) -> str:
        """Deliver to the watching terminal. Raises `NoViewer` without one."""
        lane = message.route.lane
        if not self._watchers.is_watched(lane):
            raise NoViewer("nobody looks at this console")
        self._watchers.publish(lane, delivered_event(message))
        return f"{message.delivery_id}.{message.part}"
