"""Identity of a request: the owner for a token without a role, else the token.

A token with a role can access only its own sessions. Its messages go through the bus as messages of
`api:NAME`: its role decides, and questions go to the owner.
"""

import time

from agent.errors import KoreError
from agent.i18n import current_locale, t
from agent.records import frozen
from agent.serialization import safe_text
from gateway.control.service import Service
from gateway.core.errors import ConnectionLost
from gateway.core.messages import CONSOLE, InboundMessage, Media, Route, Sender
from gateway.core.records import SessionInfo
from gateway.core.token_routes import token_principal, token_route
from gateway.server.call_scopes import mode_limit
from gateway.server.tokens import AccessToken


class UnknownSession(KoreError):
    """Error for a session that does not exist or is not available to this token."""

    code = "session_not_found"


@frozen
class Speaker:
    """Token in use with a service."""

    service: Service
    token: AccessToken

    @property
    def has_role(self) -> bool:
        return self.token.role is not None

    @property
    def may_approve(self) -> bool:
        """True if questions wait for this client, or for the owner, who has other screens."""
        return self.has_role or self.token.allows("approve")

    def lane(self, conversation: str) -> str:
        """Return the lane of one of the token's own conversations."""
        if self.has_role:
            return token_route(self.token.name, conversation).lane
        return Route(CONSOLE, "local", conversation).lane

    async def find_session(self, session: str) -> SessionInfo:
        """Return a session in which the token may send messages.

        Raises the same `UnknownSession` for a missing session and for another person's.
        """
        missing = UnknownSession(t("no session {session!r}", session=session[:80]))
        try:
            info = (await self.service.preview_session(session, 0, 0)).info
        except ConnectionLost:
            raise
        except KoreError as exc:
            if self.has_role:
                raise missing from exc
            raise UnknownSession(str(exc)) from exc
        if self.has_role and (
            info.principal != token_principal(self.token.name) or info.id != session
        ):
            raise missing
        return info

    async def store_picture(self, data: str) -> Media:
        return await self.service.store_picture(data, self.token.name if self.has_role else "")

    async def send(
        self, session: str, text: str, event_id: str, media: tuple[Media, ...], agent: str | None
    ) -> None:
        """Send a message and return once it is on disk.

        Only the owner may choose an `agent`.
        """
        if not self.has_role:
            await self.service.send_message(
                *(session, text, event_id),
                media=media,
                agent=agent,
                mode_limit=mode_limit(self.token),
            )
            return
        route = token_route(self.token.name, f"session-{session}")
        if await self.service.bound_session(route.lane) != session:
            await self.service.bind_session(route.lane, session)
        await self.service.submit(
            InboundMessage(
                channel=route.channel,
                account=route.account,
                chat_id=route.chat_id,
                thread_id=route.thread_id,
                sender=Sender(self.token.name, self.token.name),
                event_id=event_id,
                content=safe_text(text),
                received_at=time.time(),
                media=media,
                language=current_locale(),
            )
        )
