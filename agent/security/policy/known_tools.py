"""Tools that a policy may name, with the facts that policies need."""

from collections.abc import Collection, Iterable, Mapping

from agent.security.policy.base import SERVER_TOOLS, PolicyTraits
from agent.types import PolicyScope, ToolKind

# Kinds of tools that change files.
CHANGING_KINDS: frozenset[ToolKind] = frozenset({"edit", "delete", "move"})


def folded(name: str) -> str:
    """Return the normalized spelling of a tool's name."""
    return name.casefold().replace("_", "").replace("-", "")


class KnownTools:
    """Tools by name, with their traits and aliases."""

    def __init__(self, traits: Mapping[str, PolicyTraits]) -> None:
        self._traits = traits
        aliases = {
            alias: name for name, tool_traits in traits.items() for alias in tool_traits.aliases
        }
        self._names = {**aliases, **{folded(name): name for name in traits}}

    @property
    def names(self) -> Collection[str]:
        return self._traits.keys()

    def canonical(self, name: str) -> str | None:
        """Return the tool with this name or alias, or None.

        MCP servers come and go, so every well-formed name of their tools is accepted.
        """
        if name.startswith(SERVER_TOOLS):
            return name
        return name if name in self._traits else self._names.get(folded(name))

    def kinds(self, names: Iterable[str]) -> Mapping[str, ToolKind]:
        """Return the known kinds of these tools."""
        kinds = {name: self._traits[name].kind for name in names if name in self._traits}
        return {name: kind for name, kind in kinds.items() if kind != "other"}

    def is_limited_by(self, name: str, scope: PolicyScope) -> bool:
        """Return whether a scope limits a tool; every scope limits an unknown tool."""
        traits = self._traits.get(name)
        return traits is None or scope in traits.scopes

    def with_companions(self, names: Collection[str]) -> frozenset[str]:
        """Return the names with their companions, provided that one of `names` edits text.

        An agent without editing tools stays read-only.
        """
        named_tools = {name: self._traits[name] for name in names if name in self._traits}
        if not any(traits.edits_text for traits in named_tools.values()):
            return frozenset(names)
        tools = self._traits.items()
        companions = {name for name, traits in tools if traits.companion_of in named_tools}
        return frozenset({*names, *companions})
