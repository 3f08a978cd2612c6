"""Caller that the current task serves, for the audit log."""

from contextvars import ContextVar

# The name of the access token; callers over the socket are the user of this machine.
_caller: ContextVar[str] = ContextVar("caller", default="local user")


def set_caller(name: str) -> None:
    """Set the caller for the rest of this task."""
    _caller.set(name)


def current_caller() -> str:
    return _caller.get()
