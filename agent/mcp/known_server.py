"""State of one MCP server: its listing, accepted tools and notices for the person."""

import asyncio
from collections.abc import Sequence

from agent.errors import ToolError
from agent.i18n import t
from agent.mcp import resources
from agent.mcp.connection import McpConnection
from agent.mcp.listing import AcceptedTools, McpToolDefinition, ServerListing
from agent.mcp.settings import McpServerSettings

_MAX_NOTICE_CHARS = 300


class KnownServer:
    """Server with its connection, last listing, accepted tools and pending notices."""

    def __init__(
        self,
        settings: McpServerSettings,
        connection: McpConnection,
        listing: ServerListing | None,
        accepted: AcceptedTools | None,
    ) -> None:
        self.settings = settings
        self.connection = connection
        self.listing = listing
        # None before the first list with tools.
        self.owner_accepted = accepted
        self.listing_task: asyncio.Task[None] | None = None
        # True if the server has reported changes since the last listing.
        self.is_stale = False
        self.failure = ""
        self._notice = ""
        self._change_notice = ""
        self._left_out_notice = ""
        self._start_notice = ""
        self.unaccepted: tuple[McpToolDefinition, ...] = ()

    @property
    def accepted(self) -> AcceptedTools:
        """Tools that the owner has accepted, and the resource tool that Kore adds."""
        accepted = self.owner_accepted or AcceptedTools()
        if (own := self._resource_tool()) is None:
            return accepted
        return AcceptedTools({**accepted.tools, own.name: own})

    def compare(self) -> None:
        """Find the tools that differ from the accepted tools, and prepare a notice about them."""
        accepted, before = self.accepted, self.unaccepted
        self.unaccepted = tuple(tool for tool in self.offer() if not accepted.has(tool))
        is_owners = self.settings.is_own and self.settings.is_configured
        if not self.unaccepted or self.unaccepted == before or not is_owners:
            return
        self._change_notice = t(
            "The MCP server {name} has tools that are new or have changed since you accepted "
            "them: {tools}. `kore mcp test {name}` shows the changes.",
            name=self.settings.name,
            tools=", ".join(tool.name for tool in self.unaccepted)[:_MAX_NOTICE_CHARS],
        )

    def offer(self) -> Sequence[McpToolDefinition]:
        """Return the tools of the server and the resource tool that Kore adds."""
        if self.listing is None:
            return ()
        own = self._resource_tool()
        return self.listing.tools if own is None else (*self.listing.tools, own)

    def _resource_tool(self) -> McpToolDefinition | None:
        """Return the tool that Kore adds for a server with resources, or None."""
        listing = self.listing
        if listing is None or not listing.has_resources or listing.has_tool(resources.NAME):
            return None
        return resources.resource_tool(self.settings.name)

    def is_resource_tool(self, definition: McpToolDefinition) -> bool:
        """Return whether this is the tool that Kore adds, not a tool of the server."""
        is_own = self.listing is not None and self.listing.has_tool(definition.name)
        return definition.name == resources.NAME and not is_own

    def check(self, definition: McpToolDefinition) -> None:
        """Raise `ToolError` unless the server still offers the tool exactly as judged."""
        if definition in self.offer():
            return
        text = (
            f"The MCP server {self.settings.name} has changed its tool {definition.name} since "
            "this call was judged, so it was not called. Call it again if you still need it; a "
            "person is asked then."
        )
        if not any(tool.name == definition.name for tool in self.offer()):
            text = f"The MCP server {self.settings.name} has no tool {definition.name} any more."
        raise ToolError(text)

    @property
    def needs_listing(self) -> bool:
        return self.listing is None and self.connection.is_available

    @property
    def is_starting(self) -> bool:
        """True while the first listing is pending."""
        task = self.listing_task
        return self.listing is None and task is not None and not task.done()

    def note_slow_start(self) -> None:
        self._start_notice = t(
            "The MCP server {name} is still starting. Its tools are available once it has started.",
            name=self.settings.name,
        )

    def take_listing(self, listing: ServerListing) -> None:
        """Store a new listing, and prepare a notice about its unreadable items."""
        before = self.listing.left_out if self.listing is not None else ()
        self.listing = listing
        if listing.left_out and listing.left_out != before:
            self._left_out_notice = t(
                "The MCP server {name} sent descriptions that cannot be read; they were left out: "
                "{items}.",
                name=self.settings.name,
                items=", ".join(listing.left_out)[:_MAX_NOTICE_CHARS],
            )

    def note_failure(self, failure: str) -> None:
        if failure != self.failure:
            self._notice = failure
        self.failure = failure

    def take_notices(self) -> list[str]:
        """Return the pending notices for a person and clear them."""
        notices = [
            *(self._start_notice, self._take_failure()),
            *(self._change_notice, self._left_out_notice),
        ]
        self._start_notice = self._change_notice = self._left_out_notice = ""
        return [notice for notice in notices if notice]

    def _take_failure(self) -> str:
        notice, self._notice = self._notice, ""
        if notice and self.settings.is_configured:
            return t(
                "{failure} `kore mcp test {name}` shows more.",
                failure=notice,
                name=self.settings.name,
            )
        return notice
