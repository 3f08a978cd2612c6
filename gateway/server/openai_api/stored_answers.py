"""Stored answers: for requests with an `Idempotency-Key`, and conversations with bare models.

An answer is stored before its end is sent, so a key with a complete answer never gets another one.
If the process dies earlier, the same request calls the model again.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, replace
from typing import Any
from weakref import WeakValueDictionary

from aiohttp import web

from agent import events
from agent.errors import KoreError
from agent.i18n import t
from agent.serialization import dumps, message_to_json
from agent.types import Message, ToolCall, Usage, assistant
from gateway.control.protocol import REQUEST_LIMIT_BYTES
from gateway.control.service import Service
from gateway.core.records import ApiAnswer, ModelCall
from gateway.server.guard import access_of
from gateway.server.openai_api.errors import ApiError
from gateway.server.openai_api.fields import flag_field
from gateway.server.openai_api.model_reply import ModelAnswer, Piece, model_reply
from gateway.server.openai_api.request_sessions import KEY_HEADER, begin_answer, read_key

log = logging.getLogger(__name__)

# A conversation passes through the control socket as one request, together with its answer.
_CONVERSATION_BYTES = REQUEST_LIMIT_BYTES - 512 * 1024


class StoredAnswer:
    """New or earlier answer of a bare model.

    `conversation` is stored with it.
    """

    def __init__(
        self,
        service: Service,
        record: ApiAnswer,
        conversation: tuple[Message, ...] | None,
        *,
        is_stored: bool,
    ) -> None:
        self._service = service
        self._record = record
        self._conversation = conversation if is_stored else None
        self._is_stored = is_stored
        self.id, self.made_at = record.id, record.made_at

    async def pieces(
        self, call: ModelCall, *, is_stream: bool
    ) -> AsyncGenerator[Piece | ModelAnswer | None, None]:
        """Yield the pieces of the answer as `model_reply` does. Raises `KoreError`."""
        if self._record.is_complete:
            answer = _answer_of(self._record)
            for piece in self._record.answer["pieces"] if self._record.answer else ():
                yield _piece(piece)
            yield answer
            return
        sent: list[dict[str, str]] = []
        async with aclosing(model_reply(self._service, call, is_stream=is_stream)) as pieces:
            async for piece in pieces:
                if isinstance(piece, ModelAnswer):
                    await self._keep(piece, sent)
                else:
                    _add(sent, piece)
                yield piece

    async def finish(self, steps: AsyncGenerator[Any, None]) -> None:
        """Finish the answer for a disconnected client; a client with a key may return for it."""
        if not self._record.key:
            return
        try:
            async for _ in steps:
                pass
        except KoreError as exc:
            log.warning("a model call whose client had disconnected failed: %s", exc)

    async def _keep(self, answer: ModelAnswer, pieces: list[dict[str, str]]) -> None:
        record = self._record
        if not record.key and self._conversation is None:
            return
        content = None
        if record.key and self._is_stored:
            content = {**asdict(answer), "pieces": pieces}
        messages = None
        if self._conversation is not None:
            messages = (*self._conversation, assistant(answer.text, answer.calls))
        record = replace(record, answer=content, conversation=messages)
        if not await self._service.keep_api_answer(record):
            raise ApiError(
                409,
                t("another request with this Idempotency-Key was answered first; send it again"),
                "idempotency_conflict",
                KEY_HEADER,
            )


class StoredAnswers:
    """Stored answers of one server. Requests with the same key wait for each other."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def open(
        self,
        request: web.Request,
        body: Mapping[str, Any],
        answer_id: str,
        conversation: tuple[Message, ...] | None = None,
    ) -> AsyncIterator[StoredAnswer]:
        """Yield the answer for a request. Raises `ApiError`."""
        is_stored = body.get("store") is None or flag_field(body, "store")
        if is_stored and conversation is not None:
            _check_size(conversation)
        key = read_key(request)
        if not key:
            record = ApiAnswer(access_of(request).identity, answer_id, time.time())
            yield StoredAnswer(self._service, record, conversation, is_stored=is_stored)
            return
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            record = await begin_answer(self._service, request, key, answer_id)
            if record.is_complete and record.answer is None:
                raise ApiError(
                    410,
                    t("this request was answered, and the answer was not stored (store: false)"),
                    "answer_not_stored",
                    KEY_HEADER,
                )
            yield StoredAnswer(self._service, record, conversation, is_stored=is_stored)


def _check_size(conversation: tuple[Message, ...]) -> None:
    size = len(dumps([message_to_json(message) for message in conversation]).encode())
    if size > _CONVERSATION_BYTES:
        raise ApiError(
            413,
            t(
                "a conversation of {size:,} bytes cannot be stored, at most {limit:,}; begin a new"
                ' one, or send "store": false',
                size=size,
                limit=_CONVERSATION_BYTES,
            ),
            "conversation_too_large",
            "input",
        )


def _add(sent: list[dict[str, str]], piece: Piece | None) -> None:
    """Add a piece, merged into the last one if both belong to the same message or call."""
    match piece:
        case events.TextDelta(text) if text:
            new = {"text": text}
        case events.ToolCallDelta(call_id, name, part):
            new = {"id": call_id, "name": name, "text": part}
        case _:
            return
    if sent and sent[-1].get("id") == new.get("id"):
        sent[-1]["text"] += new["text"]
    else:
        sent.append(new)


def _piece(data: Mapping[str, str]) -> Piece:
    if "id" in data:
        return events.ToolCallDelta(data["id"], data["name"], data["text"])
    return events.TextDelta(data["text"])


def _answer_of(record: ApiAnswer) -> ModelAnswer:
    assert record.answer is not None
    data = record.answer
    calls = tuple(ToolCall(**call) for call in data["calls"])
    return ModelAnswer(data["text"], calls, data["finish"], Usage(**data["usage"]), data["at"])
