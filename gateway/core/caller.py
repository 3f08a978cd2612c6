"""Who makes the call that this task serves, for the audit log."""

from contextvars import ContextVar

# By the name of the token; who comes over the socket is the user of this machine.
_caller: ContextVar[str] = ContextVar("caller", default="local user")


def set_caller(name: str) -> None:
    """For the rest of this task."""
    _caller.set(name)


def current_caller() -> str:
    return _caller.get()
