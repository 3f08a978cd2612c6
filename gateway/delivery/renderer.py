"""Rendering and capabilities of each route's channel."""

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
    """Renderer of replies for channels, by name and account.

    `redactor` removes known secrets.
    """

    channels: Mapping[tuple[str, str], Channel]
    redactor: Redactor

    def channel(self, route: Route) -> Channel | None:
        return self.channels.get((route.channel, route.account))

    def can_react(self, route: Route) -> SupportsReactions | None:
        """Return the route's channel if it supports reactions."""
        channel = ability(self.channel(route), SupportsReactions)
        return channel if channel is not None and channel.shows_reactions else None

    def can_ask(self, route: Route) -> SupportsApprovals | None:
        """Return the route's channel if people can answer questions there."""
        return ability(self.channel(route), SupportsApprovals)

    def trace(self, route: Route) -> Trace | None:
        """Return the default detail of the activity trace below answers.

        None where the channel supports no trace.
        """
        channel = ability(self.channel(route), SupportsTrace)
        return None if channel is None else channel.trace

    def decoder(self, channel: str, account: str) -> SupportsReplay | None:
        """Return the channel if it can decode stored updates."""
        return ability(self.channels.get((channel, account)), SupportsReplay)

    def clean(self, text: str) -> str:
        """Return the text without secrets."""
        return self.redactor.clean(text)

    def clean_data(self, data: Any) -> Any:
        """Return JSON data without secrets."""
        return self.redactor.clean_data(data)

    def render(self, route: Route, markdown: str) -> Sequence[OutboundPart]:
        """Return the parts for this route; plain text while its channel is not running."""
        text = self.redactor.clean(markdown)
        channel = self.channel(route)
        return channel.render(text) if channel else [OutboundPart(text)]
