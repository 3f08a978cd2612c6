"""Assignment of requests for Kore's agent to sessions and messages.

The header `X-Kore-Session` names a session, or else the field `user`. Otherwise a continued
conversation is recognized by its earlier messages, and any other starts a session. The
`Idempotency-Key` identifies a message: the same message is not answered twice, and a different one
with the same key is rejected.
"""

import asyncio
import hashlib
import os
import time
from collections import OrderedDict
from typing import TypeVar

from aiohttp import web

from agent.i18n import t
from agent.records import frozen
from gateway.control.service import Service
from gateway.core.records import ApiAnswer, ApiRequest
from gateway.core.token_routes import token_principal
from gateway.server.guard import access_of
from gateway.server.openai_api.conversation import ClientConversation
from gateway.server.openai_api.errors import ApiError, bad_field
from gateway.server.openai_api.side_requests import RecentExchanges
from gateway.server.speaker import Speaker

V = TypeVar("V")

SESSION_HEADER = "X-Kore-Session"
KEY_HEADER = "Idempotency-Key"
_MAX_KEY_CHARS = 255
# Header that OpenAI's own clients send with an automatic retry.
_RETRY_HEADER = "x-stainless-retry-count"
_MAX_REMEMBERED = 1_000
_MAX_RETRY_AGE_S = 1_800.0


@frozen
class MessagePlace:
    """Session and id of a message.

    `is_new` means that the session has no messages yet. `is_kept` means that the client may return
    for the answer.
    """

    session: str
    event_id: str
    is_new: bool
    is_kept: bool


class RequestSessions:
    """Sessions for the requests to one server.

    Remembered assignments only avoid new sessions, so nothing else is lost at a restart.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = asyncio.Lock()
        self._by_fingerprint: OrderedDict[str, str] = OrderedDict()
        self._by_body: OrderedDict[str, tuple[float, str]] = OrderedDict()
        self._exchanges = RecentExchanges()

    def is_side_request(self, request: web.Request, conversation: ClientConversation) -> bool:
        """Return whether a request is only about the exchange of another request.

        False for a token with a role: its rules and its limits apply to turns of the agent.
        """
        token = access_of(request)
        if token.role is not None or request.headers.get(SESSION_HEADER):
            return False
        return self._exchanges.is_quoted_in(token.identity, conversation)

    async def find(
        self,
        request: web.Request,
        conversation: ClientConversation,
        user: str | None,
        session: str | None = None,
    ) -> MessagePlace:
        """Return the session and id of a request's message.

        `session` is the session that the request names explicitly. Raises `KoreError`.
        """
        # Before anything else, because the request for a title may follow at once.
        self._exchanges.begin(access_of(request).identity, conversation)
        key = read_key(request)
        event_id = f"api-{key}" if key else await self._retried(request)
        if key:
            await begin_answer(self._service, request, key, event_id)
        async with self._lock:
            outcome = await self._service.message_outcome(event_id)
            if outcome.state != "unknown" and outcome.session:
                return MessagePlace(outcome.session, event_id, is_new=False, is_kept=bool(key))
            if session is not None:
                return MessagePlace(session, event_id, is_new=False, is_kept=bool(key))
            session, is_new = await self._session(request, conversation, user, event_id)
        return MessagePlace(session, event_id, is_new, bool(key))

    def remember(
        self,
        request: web.Request,
        conversation: ClientConversation,
        answer: str,
        place: MessagePlace,
    ) -> None:
        """Remember the session for the next request with this conversation and answer."""
        token = access_of(request).identity
        self._exchanges.add(token, conversation, answer)
        for text in conversation.fingerprints_with(answer):
            _put(self._by_fingerprint, digest_of(token, text), place.session)

    async def _session(
        self,
        request: web.Request,
        conversation: ClientConversation,
        user: str | None,
        event_id: str,
    ) -> tuple[str, bool]:
        speaker = Speaker(self._service, access_of(request))
        token = speaker.token.identity
        if session := request.headers.get(SESSION_HEADER, ""):
            info = await speaker.find_session(session)
            return info.id, info.messages == 0
        if user:
            return await self._bound(speaker, f"api-user-{digest_of(token, user)}")
        fingerprint = digest_of(token, conversation.fingerprint())
        if conversation.earlier and (session := self._by_fingerprint.get(fingerprint, "")):
            self._forget(session)
            return session, False
        return await self._bound(speaker, event_id)

    def _forget(self, session: str) -> None:
        """Forget the earlier fingerprints of a session that continues."""
        for fingerprint in [
            key for key, holder in self._by_fingerprint.items() if holder == session
        ]:
            del self._by_fingerprint[fingerprint]

    async def _bound(self, speaker: Speaker, conversation: str) -> tuple[str, bool]:
        """Return the session of a conversation, or a new one, and whether it is new."""
        lane = speaker.lane(conversation)
        session = await self._service.bound_session(lane)
        if session is not None:
            return session, False
        return await self._service.bind_session(lane, None), True

    async def _retried(self, request: web.Request) -> str:
        """Return the id of a message without a key.

        A client that retries automatically says so, and then an equal body means the same message.
        """
        data = (await request.read()).decode("utf-8", "replace")
        body = digest_of(access_of(request).identity, data)
        now, retries = time.monotonic(), request.headers.get(_RETRY_HEADER, "0")
        at, event_id = self._by_body.get(body, (0.0, ""))
        if not event_id or retries in ("", "0") or now - at > _MAX_RETRY_AGE_S:
            event_id = f"api-{os.urandom(16).hex()}"
        _put(self._by_body, body, (now, event_id))
        return event_id


def _put(entries: OrderedDict[str, V], key: str, value: V) -> None:
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > _MAX_REMEMBERED:
        entries.popitem(last=False)


def read_key(request: web.Request) -> str:
    """Return a digest of the request's key and its token, '' without a key. Raises `ApiError`."""
    key = request.headers.get(KEY_HEADER, "")
    if len(key) > _MAX_KEY_CHARS:
        raise bad_field(KEY_HEADER, f"at most {_MAX_KEY_CHARS} characters")
    return digest_of(access_of(request).identity, key) if key else ""


def digest_of(*parts: str) -> str:
    data = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:40]


async def begin_answer(
    service: Service, request: web.Request, key: str, answer_id: str
) -> ApiAnswer:
    """Return the answer for this key and request body.

    Raises `ApiError` for a key that was used with a different request.
    """
    content = request.path.encode() + b"\0" + await request.read()
    digest = hashlib.sha256(content).hexdigest()
    token = access_of(request)
    principal = "" if token.role is None else token_principal(token.name)
    answer = await service.begin_api_answer(
        ApiRequest(token.identity, key, digest, answer_id, principal)
    )
    if answer is None:
        raise ApiError(
            422,
            t("this Idempotency-Key was used for a different request; use a new key"),
            "idempotency_key_reused",
            KEY_HEADER,
        )
    return answer
