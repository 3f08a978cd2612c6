"""Tools that conversations offer to models, unchanged while servers only list further ones."""

from collections.abc import Collection, Sequence

from agent.providers.base import ToolSpec
from agent.security.policy.base import SERVER_TOOLS

# The oldest conversations are forgotten first.
_MAX_CONVERSATIONS = 1_000


class OfferedTools:
    """Tools of the last turn of each conversation.

    Providers cache requests by their beginning, and each begins with the tools. If a server lists
    further tools during a conversation, they are offered to the next one; where tools are searched
    for, the search finds them at once.
    """

    def __init__(self) -> None:
        self._tools: dict[str, tuple[ToolSpec, ...]] = {}
        self._announced: dict[str, frozenset[str]] = {}

    def keep(
        self, session: str, tools: tuple[ToolSpec, ...], searches: Collection[str]
    ) -> tuple[ToolSpec, ...]:
        """Return the tools to offer: those of the last turn if servers have only listed more.

        The descriptions of the tools named in `searches` list tools of servers.
        """
        before = self._tools.pop(session, ())
        offered = self._tools[session] = before if _is_extended(before, tools, searches) else tools
        if len(self._tools) > _MAX_CONVERSATIONS:
            oldest = next(iter(self._tools))
            del self._tools[oldest]
            self._announced.pop(oldest, None)
        return offered

    def take_waiting(self, session: str, tools: Sequence[ToolSpec]) -> Sequence[str]:
        """Return the names of the tools that wait for the next conversation, each once."""
        offered = {spec.name for spec in self._tools.get(session, ())}
        announced = self._announced.get(session, frozenset())
        waiting = [spec.name for spec in tools if spec.name not in offered | announced]
        if waiting:
            self._announced[session] = announced.union(waiting)
        return waiting


def _is_extended(
    before: Sequence[ToolSpec], tools: Sequence[ToolSpec], searches: Collection[str]
) -> bool:
    """Return whether tools of servers that had some were added, and nothing else has changed."""
    specs = {spec.name: spec for spec in tools}
    new_names = specs.keys() - {spec.name for spec in before}
    servers = {_server_of(spec.name) for spec in before if spec.name.startswith(SERVER_TOOLS)}
    is_unchanged = all(
        specs.get(spec.name) == spec or (spec.name in specs and spec.name in searches)
        for spec in before
    )
    return bool(before) and is_unchanged and all(_server_of(name) in servers for name in new_names)


def _server_of(name: str) -> str:
    """Return the beginning of a tool's name that its server's other tools share."""
    return name.rpartition("__")[0]
