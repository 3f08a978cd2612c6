"""Tools that a policy may name, with the facts about them that a policy needs."""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from agent.security.policy.base import SERVER_TOOLS
from agent.types import PolicyScope, ToolKind

# Kinds of tools that change files.
CHANGING_KINDS: frozenset[ToolKind] = frozenset({"edit", "delete", "move"})


def folded(name: str) -> str:
    """Return one spelling for every way in which models and people write a tool's name."""
    return name.casefold().replace("_", "").replace("-", "")


class PolicyTraits(Protocol):
    """The traits of a tool that a policy reads."""

    @property
    def kind(self) -> ToolKind: ...
    @property
    def scopes(self) -> Collection[PolicyScope]: ...


class KnownTools:
    """Tools by name, and further names for them. Nothing is known about a tool without traits."""

    def __init__(
        self, traits: Mapping[str, PolicyTraits | None], aliases: Mapping[str, str]
    ) -> None:
        """`aliases` maps folded names to tools."""
        self._traits = traits
        self._names = {**aliases, **{folded(name): name for name in traits}}

    @property
    def names(self) -> Collection[str]:
        return self._traits.keys()

    def canonical(self, name: str) -> str | None:
        """Return the tool with this name or alias, or None. Tools of MCP servers come and go, so
        every well-formed name of one is accepted."""
        if name.startswith(SERVER_TOOLS):
            return name
        return name if name in self._traits else self._names.get(folded(name))

    def kinds(self, names: Iterable[str]) -> Mapping[str, ToolKind]:
        """Return the kinds of these tools, as far as they are known."""
        declared = ((name, self._traits.get(name)) for name in names)
        return {name: traits.kind for name, traits in declared if traits is not None}

    def is_limited_by(self, name: str, scope: PolicyScope) -> bool:
        """Return whether a scope limits a tool; every scope does for a tool without traits."""
        traits = self._traits.get(name)
        return traits is None or scope in traits.scopes
