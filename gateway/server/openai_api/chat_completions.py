"""Handler for `POST /v1/chat/completions`."""

import os
import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from aiohttp import web

from agent.errors import PolicyDenied
from agent.i18n import t
from gateway.control.service import Service
from gateway.server.call_scopes import check_message
from gateway.server.guard import access_of
from gateway.server.openai_api.agent_answer import (
    AgentAnswer,
    AgentOrder,
    TurnEnd,
    answer_text,
)
from gateway.server.openai_api.answer_stream import respond, write_reply, write_turn
from gateway.server.openai_api.chat_messages import read_messages
from gateway.server.openai_api.chat_writer import ChatWriter
from gateway.server.openai_api.conversation import ClientConversation
from gateway.server.openai_api.errors import ApiError
from gateway.server.openai_api.fields import (
    check_supported,
    check_supported_by_agent,
    check_tools,
    flag_field,
    object_field,
    text_field,
)
from gateway.server.openai_api.model_calls import chat_call
from gateway.server.openai_api.model_names import SIDE_MODEL, ModelTarget, find_target
from gateway.server.openai_api.request_sessions import (
    SESSION_HEADER,
    MessagePlace,
    RequestSessions,
)
from gateway.server.openai_api.stored_answers import StoredAnswers
from gateway.server.speaker import Speaker


class ChatCompletions:
    """Handler for chat completions by Kore's agent or by a model."""

    def __init__(self, service: Service, sessions: RequestSessions, answers: StoredAnswers) -> None:
        self._service = service
        self._sessions = sessions
        self._answers = answers

    async def answer(self, request: web.Request, body: Mapping[str, Any]) -> web.StreamResponse:
        """Answer a request. Raises `KoreError`."""
        check_may_speak(request)
        target = await find_target(self._service, body, access_of(request))
        check_supported(body)
        conversation = await read_messages(body)
        if target.agent is None:
            return await self._by_model(request, body, target, conversation)
        if self._sessions.is_side_request(request, conversation):
            return await self._by_model(request, body, target, conversation, SIDE_MODEL)
        return await self._by_agent(request, body, target, conversation)

    async def _by_agent(
        self,
        request: web.Request,
        body: Mapping[str, Any],
        target: ModelTarget,
        conversation: ClientConversation,
    ) -> web.StreamResponse:
        check_tools(body)
        check_supported_by_agent(body)
        check_words(request, conversation)
        place = await self._sessions.find(request, conversation, text_field(body, "user"))
        turn = await agent_turn(self._service, request, target, conversation, place)
        writer, token = self._writer(body, target, _new_id(), time.time()), access_of(request).name
        headers, is_stream = {SESSION_HEADER: place.session}, flag_field(body, "stream")
        async with aclosing(write_turn(turn, writer, token)) as steps:
            response, end = await respond(request, writer, steps, headers, is_stream=is_stream)
        if isinstance(end, TurnEnd):
            # The client sends back the text that it has received.
            text = writer.text if is_stream else answer_text(end, token)
            self._sessions.remember(request, conversation, text, place)
        elif end is None:
            await stop_turn(turn, place)
        return response

    async def _by_model(
        self,
        request: web.Request,
        body: Mapping[str, Any],
        target: ModelTarget,
        conversation: ClientConversation,
        model: str | None = None,
    ) -> web.StreamResponse:
        call = chat_call(model or target.name, body, conversation)
        is_stream = flag_field(body, "stream")
        async with self._answers.open(request, body, _new_id()) as stored:
            writer = self._writer(body, target, stored.id, stored.made_at)
            pieces = stored.pieces(call, is_stream=is_stream)
            async with aclosing(write_reply(pieces, writer)) as steps:
                response, end = await respond(request, writer, steps, {}, is_stream=is_stream)
                if end is None:
                    await stored.finish(steps)
            return response

    def _writer(
        self, body: Mapping[str, Any], target: ModelTarget, answer_id: str, made_at: float
    ) -> ChatWriter:
        has_usage = flag_field(object_field(body, "stream_options"), "include_usage")
        return ChatWriter(target.name, answer_id, made_at, has_usage=has_usage)


async def agent_turn(
    service: Service,
    request: web.Request,
    target: ModelTarget,
    conversation: ClientConversation,
    place: MessagePlace,
) -> AgentAnswer:
    """Return the answer of Kore's agent to the request. Raises `KoreError` for an empty message."""
    speaker = Speaker(service, access_of(request))
    text = conversation.words(is_new=place.is_new)
    _check_not_empty(text, conversation)
    if place.is_new and (title := conversation.title()):
        # Without a title, the session would be named after Kore's text about the system message.
        await service.rename_session(place.session, title)
    media = tuple([await speaker.store_picture(picture) for picture in conversation.pictures()])
    order = AgentOrder(place, text, media, target.agent)
    return AgentAnswer(speaker, order)


async def stop_turn(turn: AgentAnswer, place: MessagePlace) -> None:
    """Stop the turn of a disconnected client, unless it may return for the answer."""
    if not place.is_kept:
        await turn.stop()


def _new_id() -> str:
    return f"chatcmpl-{os.urandom(12).hex()}"


def check_words(request: web.Request, conversation: ClientConversation) -> None:
    """Check the message before a session is created for it.

    Raises `KoreError` for a message that this token may not send.
    """
    text = conversation.words(is_new=False)
    if not access_of(request).allows("admin"):
        check_message(access_of(request), {"text": text})
    if not (conversation.system or conversation.earlier):
        _check_not_empty(text, conversation)


def _check_not_empty(text: str, conversation: ClientConversation) -> None:
    if not text.strip() and not conversation.pictures():
        raise ApiError(400, t("the message is empty"), param="messages")


def check_may_speak(request: web.Request) -> None:
    """Raise `PolicyDenied` for a token that may not chat."""
    if not access_of(request).allows("chat"):
        raise PolicyDenied(
            t("{call} needs a token with the scope {scope}", call=request.path, scope="chat")
        )
