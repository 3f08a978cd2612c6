"""Declaration of calls: the decorator that makes a function callable over the protocol."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_args

from agent.records import frozen

CallScope = Literal["read", "chat", "approve", "admin"]
SCOPES: tuple[CallScope, ...] = get_args(CallScope)

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_ATTRIBUTE = "call_declaration"


@frozen
class CallDeclaration:
    """The scope that a token needs for a call. With `admin_arguments`, it needs the scope admin as
    well to pass anything but the default."""

    scope: CallScope
    admin_arguments: tuple[str, ...] = ()


def call(
    *, scope: CallScope, admin_arguments: tuple[str, ...] = ()
) -> Callable[[FunctionT], FunctionT]:
    """Declare a function as a call; see `CallDeclaration` for the arguments."""
    declaration = CallDeclaration(scope, admin_arguments)

    def declare(function: FunctionT) -> FunctionT:
        function.__dict__[_ATTRIBUTE] = declaration
        return function

    return declare


def declaration_of(function: object) -> CallDeclaration | None:
    """Return the declaration of a call; None for any other function."""
    return getattr(function, _ATTRIBUTE, None)
