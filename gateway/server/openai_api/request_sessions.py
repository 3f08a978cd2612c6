"""Which session a request to Kore's agent belongs to, and which message it is.

A session is named by the header `X-Kore-Session`, else by the field `user`; else a conversation
that goes on is known by what was said in it, and any other begins a session. A message is known by
its `Idempotency-Key`: sent again, it is not answered a second time.
"""

import asyncio
import hashlib
import os
import time
from collections import OrderedDict
from typing import TypeVar

from aiohttp import web

from agent.records import frozen
from gateway.control.service import Service
from gateway.server.guard import access_of
from gateway.server.openai_api.conversation import ClientConversation
from gateway.server.openai_api.errors import bad_field
from gateway.server.openai_api.speaker import Speaker

V = TypeVar("V")

SESSION_HEADER = "X-Kore-Session"
_KEY_HEADER = "Idempotency-Key"
# What OpenAI's own clients say when they try again by themselves.
_RETRY_HEADER = "x-stainless-retry-count"
_KEY_CHARS = 255
_REMEMBERED = 1_000
_RETRIED_WITHIN_S = 1_800.0


@frozen
class MessagePlace:
    """`is_new`: nothing was said in the session yet. `is_kept`: the client may come back for the
    answer."""

    session: str
    event_id: str
    is_new: bool
    is_kept: bool


class RequestSessions:
    """Of one server. What is remembered here only saves a new session: a restart loses no more."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._lock = asyncio.Lock()
        self._by_fingerprint: OrderedDict[str, str] = OrderedDict()
        self._by_body: OrderedDict[str, tuple[float, str]] = OrderedDict()

    async def find(
        self,
        request: web.Request,
        conversation: ClientConversation,
        user: str | None,
        session: str | None = None,
    ) -> MessagePlace:
        """`session` is the one that the request goes on with, where it says so. Raises
        `KoreError`."""
        token = Speaker(self._service, access_of(request)).identity
        key = request.headers.get(_KEY_HEADER, "")
        if len(key) > _KEY_CHARS:
            raise bad_field(_KEY_HEADER, f"at most {_KEY_CHARS} characters")
        event_id = f"api-{_digest(token, key)}" if key else await self._retried(request, token)
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
        """The next request with this conversation and its answer belongs to the session."""
        token = Speaker(self._service, access_of(request)).identity
        fingerprint = _digest(token, conversation.fingerprint_with(answer))
        _put(self._by_fingerprint, fingerprint, place.session)

    async def _session(
        self,
        request: web.Request,
        conversation: ClientConversation,
        user: str | None,
        event_id: str,
    ) -> tuple[str, bool]:
        speaker = Speaker(self._service, access_of(request))
        token = speaker.identity
        if session := request.headers.get(SESSION_HEADER, ""):
            info = await speaker.find_session(session)
            return info.id, info.messages == 0
        if user:
            return await self._bound(speaker, f"api-user-{_digest(token, user)}")
        fingerprint = _digest(token, conversation.fingerprint())
        if conversation.earlier and (session := self._by_fingerprint.pop(fingerprint, "")):
            return session, False
        return await self._bound(speaker, event_id)

    async def _bound(self, speaker: Speaker, conversation: str) -> tuple[str, bool]:
        """The session of a conversation, or a new one for it."""
        lane = speaker.lane(conversation)
        session = await self._service.bound_session(lane)
        if session is not None:
            return session, False
        return await self._service.bind_session(lane, None), True

    async def _retried(self, request: web.Request, token: str) -> str:
        """The id of a message without a key. A client that tries again by itself says so, and then
        the same body is the same message."""
        body = _digest(token, (await request.read()).decode("utf-8", "replace"))
        now, retries = time.monotonic(), request.headers.get(_RETRY_HEADER, "0")
        at, event_id = self._by_body.get(body, (0.0, ""))
        if not event_id or retries in ("", "0") or now - at > _RETRIED_WITHIN_S:
            event_id = f"api-{os.urandom(16).hex()}"
        _put(self._by_body, body, (now, event_id))
        return event_id


def _put(entries: OrderedDict[str, V], key: str, value: V) -> None:
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > _REMEMBERED:
        entries.popitem(last=False)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:40]
