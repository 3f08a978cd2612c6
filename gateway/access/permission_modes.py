"""Which permission mode holds for a message."""

from dataclasses import replace

from agent.security.policy.base import PermissionMode, is_mode, tightest
from gateway.core.messages import CONSOLE, InboundMessage


def mode_of(
    message: InboundMessage, chosen: str | None, first: PermissionMode, *, owner: bool
) -> PermissionMode:
    """The mode for one message.

    `chosen` is that of its conversation, `first` the one that its channel begins with. The
    command line of the console beats both. Who is not the owner never gets more than `first`,
    also where the owner has chosen more for a chat that they share.
    """
    if message.job is not None and is_mode(made := message.options.get("mode")):
        return _of_job(message, made, chosen, first, owner=owner)
    if message.channel == CONSOLE:
        if message.options.get("auto") is True:
            return "auto"
        asked = message.options.get("mode")
        if is_mode(asked):
            return asked
    mode = chosen if is_mode(chosen) else first
    return mode if owner else tightest(mode, first)


def _of_job(
    message: InboundMessage,
    made: PermissionMode,
    chosen: str | None,
    first: PermissionMode,
    *,
    owner: bool,
) -> PermissionMode:
    """At most what held when it was made, and what holds in its conversation now."""
    if chosen is None:
        return made if owner else tightest(made, first)
    now = replace(message, job=None, options={})
    return tightest(made, mode_of(now, chosen, first, owner=owner))
