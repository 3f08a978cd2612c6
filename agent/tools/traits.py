"""Facts about a tool that hold for all of its calls; the tool declares them."""

from typing import Protocol, runtime_checkable

from agent.records import frozen
from agent.types import PolicyScope, ToolKind


@frozen
class ToolTraits:
    """The kind of a tool, and the policy scopes that limit its calls."""

    kind: ToolKind
    scopes: tuple[PolicyScope, ...] = ()


@runtime_checkable
class DeclaresTraits(Protocol):
    """Optional ability of a tool: declare its traits. Nothing is known about a tool without it."""

    @property
    def traits(self) -> ToolTraits | None: ...


def traits_of(tool: object) -> ToolTraits | None:
    """Return the traits that a tool declares, or None."""
    return tool.traits if isinstance(tool, DeclaresTraits) else None
