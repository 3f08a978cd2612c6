"""What each route can show: its channel's abilities, and text as that channel renders it."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.records import frozen
from agent.security.redaction import Redactor
from gateway.channels.base import (
    Channel,
    SupportsApprovals,
    SupportsReactions,
    SupportsReplay,
    SupportsTrace,
    ability,
)
from gateway.core.messages import OutboundPart, Route
from gateway.core.records import Trace


@frozen
class ReplyRenderer:
    """The channels by name and account; what `redactor` knows as secret is never rendered."""

    channels: Mapping[tuple[str, str], Channel]
    redactor: Redactor

    def channel(self, route: Route) -> Channel | None:
        return self.channels.get((route.channel, route.account))

    def can_react(self, route: Route) -> SupportsReactions | None:
        """The route's channel, if it shows that a message was seen."""
        channel = ability(self.channel(route), SupportsReactions)
        return channel if channel is not None and channel.shows_reactions else None

    def can_ask(self, route: Route) -> SupportsApprovals | None:
        """The route's channel, if people can answer questions there."""
        return ability(self.channel(route), SupportsApprovals)

    def trace(self, route: Route) -> Trace | None:
        """How much of what was done stands below answers there by default; None where
        nothing can."""
        channel = ability(self.channel(route), SupportsTrace)
        return None if channel is None else channel.trace

    def decoder(self, channel: str, account: str) -> SupportsReplay | None:
        """The channel, if it can decode stored updates."""
        return ability(self.channels.get((channel, account)), SupportsReplay)

    def clean(self, text: str) -> str:
        """The text without secrets."""
        return self.redactor.clean(text)

    def clean_data(self, data: Any) -> Any:
        """JSON data without secrets."""
        return self.redactor.clean_data(data)

    def render(self, route: Route, markdown: str) -> Sequence[OutboundPart]:
        """The parts for this route; plain text as long as its channel is not running."""
        text = self.redactor.clean(markdown)
        channel = self.channel(route)
        return channel.render(text) if channel else [OutboundPart(text)]
