"""Permission mode for a message."""

from dataclasses import replace

from agent.security.policy.base import PermissionMode, is_mode, tightest
from gateway.core.messages import CONSOLE, InboundMessage, MessageOptions


def mode_of(
    message: InboundMessage, session_mode: str | None, default: PermissionMode, *, owner: bool
) -> PermissionMode:
    """Return the permission mode for one message.

    `session_mode` is the mode of its conversation, `default` the initial mode of its channel. The
    console's command line overrides both. Other people than the owner never get more than
    `default`, even in a chat where the owner has chosen more.
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
    """Return the stricter of the mode at the job's creation and the conversation's current mode."""
    if session_mode is None:
        return job_mode if owner else tightest(job_mode, default)
    now = replace(message, kind="message", job=None, options=MessageOptions())
    return tightest(job_mode, mode_of(now, session_mode, default, owner=owner))
