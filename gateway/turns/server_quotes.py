"""What people name of MCP servers in their messages, read before the turn that answers them."""

from collections.abc import Sequence
from dataclasses import replace

from agent.agent import Agent
from agent.security.policy.base import ToolRequest
from agent.types import Context, Message
from gateway.core.messages import InboundMessage
from gateway.store.port import Store
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.turns.permissions import TurnPermissions
from gateway.turns.prompt import is_said


class ServerQuotesReader:
    """Adds resources and prompts that a message names to what the model reads."""

    def __init__(self, *, agent: Agent, database: Store, permissions: TurnPermissions) -> None:
        self._agent = agent
        self._database = database
        self._permissions = permissions

    async def with_quotes(self, claim: TurnClaim, question: Message) -> tuple[TurnClaim, Message]:
        """A new turn's claim and question, with what its messages name; stored before it is used,
        so that a turn that goes on reads the same."""
        servers = self._agent.mcp
        lines = [one for one in claim.messages if is_said(one) and one.content]
        if servers is None or not lines:
            return claim, question
        from agent.mcp.quotes import named_servers, server_quotes

        for one in lines:
            names = [
                name
                for name in named_servers(one.content, servers)
                if self._may_read(claim, one, name)
            ]
            if not names:
                continue
            quotes = await server_quotes(one.content, servers, names)
            parts = [Context(self._agent.redactor.clean(text)) for text in quotes.texts]
            question = replace(question, content=(*question.content, *parts))
            claim = replace(claim, taint=claim.taint | quotes.taint)
            await self._database.transact(sessions.add_taint, claim.session, quotes.taint)
            await self._database.transact(sessions.amend, claim.session, claim.turn, question)
        return claim, question

    def _may_read(self, claim: TurnClaim, message: InboundMessage, server: str) -> bool:
        """Return whether who wrote it may read from this server unasked; otherwise the model may
        call the server's tool, which asks."""
        from agent.mcp.names import tool_names
        from agent.mcp.resources import NAME

        lines: Sequence[InboundMessage] = (message,)
        permissions = self._permissions.permissions(
            lines, claim.session, claim.mode, turn=claim.turn
        )
        request = ToolRequest(
            tool=tool_names([(server, NAME)])[server, NAME],
            effect="read",
            arguments={},
            workspace=self._permissions.working_dir(message),
        )
        return permissions.policy.decide(request).verdict == "allow"
