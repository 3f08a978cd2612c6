"""Caller that the current task serves, for the audit log."""

from contextvars import ContextVar

# Name of the access token; a caller over the socket is the user of this machine.
_caller: ContextVar[str] = ContextVar("caller", default="local user")


def set_caller(name: str) -> None:
    """Set the caller for the rest of this task."""
    _caller.set(name)


def current_caller() -> str:
    return _caller.get()
