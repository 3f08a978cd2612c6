"""Declaration of calls: the decorator that makes a function callable over the protocol."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args

CallScope = Literal["read", "chat", "approve", "admin"]
SCOPES: tuple[CallScope, ...] = get_args(CallScope)

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_ATTRIBUTE = "call_scope"


def call(*, scope: CallScope) -> Callable[[FunctionT], FunctionT]:
    """Declare a function as a call that needs a token with this scope."""

    def declare(function: FunctionT) -> FunctionT:
        function.__dict__[_ATTRIBUTE] = scope
        return function

    return declare


def declared_scope(function: object) -> CallScope | None:
    """Return the scope that a function was declared with; None when it is not a call."""
    return getattr(function, _ATTRIBUTE, None)
