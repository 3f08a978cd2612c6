"""Which permission mode holds for a message."""

from dataclasses import replace

from agent.security.policy.base import PermissionMode, is_mode, tightest
from gateway.core.messages import CONSOLE, InboundMessage, MessageOptions


def mode_of(
    message: InboundMessage, session_mode: str | None, default: PermissionMode, *, owner: bool
) -> PermissionMode:
    """The mode for one message.

    `session_mode` is that of its conversation, `default` the one that its channel begins with. The
    command line of the console beats both. Who is not the owner never gets more than `default`,
    also where the owner has chosen more for a chat that they share.
    """
    if message.job is not None and is_mode(job_mode := message.options.mode):
        return _of_job(message, job_mode, session_mode, default, owner=owner)
    if message.channel == CONSOLE:
        if message.options.auto:
            return "auto"
        option = message.options.mode
        if is_mode(option):
            return option
    mode = session_mode if is_mode(session_mode) else default
    return mode if owner else tightest(mode, default)


def _of_job(
    message: InboundMessage,
    job_mode: PermissionMode,
    session_mode: str | None,
    default: PermissionMode,
    *,
    owner: bool,
) -> PermissionMode:
    """At most what held when it was made, and what holds in its conversation now."""
    if session_mode is None:
        return job_mode if owner else tightest(job_mode, default)
    now = replace(message, kind="message", job=None, options=MessageOptions())
    return tightest(job_mode, mode_of(now, session_mode, default, owner=owner))
