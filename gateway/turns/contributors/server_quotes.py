"""Resources and prompts of MCP servers named in messages, read before the turn begins."""

from agent.agent import Agent
from agent.records import frozen
from agent.security.policy.base import ToolRequest
from gateway.core.messages import InboundMessage
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.turns.permissions import TurnPermissions
from gateway.turns.prompt import TurnDraft, is_said


@frozen
class ServerQuoteReader:
    """Implements `PromptContributor` for resources and prompts that people name."""

    agent: Agent
    permissions: TurnPermissions

    async def contribute(self, draft: TurnDraft) -> None:
        servers = self.agent.mcp
        if servers is None or draft.is_resumed:
            return
        from agent.mcp.quotes import named_servers, server_quotes

        for message in filter(is_said, draft.claim.messages):
            names = [
                name
                for name in named_servers(message.content, servers)
                if self._may_read(draft.claim, message, name)
            ]
            if names:
                quotes = await server_quotes(message.content, servers, names)
                clean = self.agent.redactor.clean
                draft.append(*map(clean, quotes.texts), taint=quotes.taint)

    def _may_read(self, claim: TurnClaim, message: InboundMessage, server: str) -> bool:
        """Return whether the sender may read from this server without approval.

        Otherwise the model may call the server's tool, which requests approval.
        """
        from agent.mcp.names import tool_names
        from agent.mcp.resources import NAME

        permissions = self.permissions.permissions(
            (message,), claim.session, claim.mode, turn=claim.turn
        )
        request = ToolRequest(
            tool=tool_names([(server, NAME)])[server, NAME],
            effect="read",
            arguments={},
            workspace=self.permissions.working_dir(message),
        )
        return permissions.policy.decide(request).verdict == "allow"
