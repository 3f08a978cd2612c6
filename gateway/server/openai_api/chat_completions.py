"""`POST /v1/chat/completions`."""

import os
import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from aiohttp import web

from agent.errors import PolicyDenied
from agent.i18n import t
from agent.serialization import dumps
from gateway.control.service import Service
from gateway.server.call_scopes import check_message
from gateway.server.guard import access_of
from gateway.server.openai_api.agent_answer import AgentAnswer, AgentOrder, answer_text
from gateway.server.openai_api.agent_chat import end_of, streamed_answer, whole_answer
from gateway.server.openai_api.chat_answer import ChatAnswer
from gateway.server.openai_api.chat_messages import read_messages
from gateway.server.openai_api.conversation import ClientConversation
from gateway.server.openai_api.errors import ApiError
from gateway.server.openai_api.fields import flag_field, list_field, object_field, text_field
from gateway.server.openai_api.model_chat import call_of, stream_completion, whole_completion
from gateway.server.openai_api.model_names import ModelTarget, find_target
from gateway.server.openai_api.request_sessions import (
    SESSION_HEADER,
    MessagePlace,
    RequestSessions,
)
from gateway.server.openai_api.server_sent_events import ServerSentEvents
from gateway.server.openai_api.stored_answers import StoredAnswers
from gateway.server.speaker import Speaker


class ChatCompletions:
    """Answers by Kore's agent, or by a model."""

    def __init__(self, service: Service, sessions: RequestSessions, answers: StoredAnswers) -> None:
        self._service = service
        self._sessions = sessions
        self._answers = answers

    async def answer(self, request: web.Request, body: Mapping[str, Any]) -> web.StreamResponse:
        """Raises `KoreError`."""
        check_may_speak(request)
        target = await find_target(self._service, body, access_of(request))
        conversation = await read_messages(body)
        if body.get("n") not in (None, 1):
            raise ApiError(400, t("only one answer can be given"), param="n")
        if target.agent is None:
            return await self._by_model(request, body, target, conversation)
        return await self._by_agent(request, body, target, conversation)

    async def _by_agent(
        self,
        request: web.Request,
        body: Mapping[str, Any],
        target: ModelTarget,
        conversation: ClientConversation,
    ) -> web.StreamResponse:
        if list_field(body, "tools"):
            raise ApiError(
                400,
                t("Kore's agent has tools of its own; tools can be given to a model by its name"),
                param="tools",
            )
        check_words(request, conversation)
        place = await self._sessions.find(request, conversation, text_field(body, "user"))
        turn = await agent_turn(self._service, request, target, conversation, place)
        answer, token = ChatAnswer(target.name, _new_id(), time.time()), access_of(request).name
        headers = {SESSION_HEADER: place.session}
        try:
            if not flag_field(body, "stream"):
                end = await end_of(turn, request)
                self._sessions.remember(request, conversation, answer_text(end, token), place)
                data = whole_answer(end, answer, token)
                return web.json_response(data, headers=headers, dumps=dumps)
            usage = flag_field(object_field(body, "stream_options"), "include_usage")
            async with ServerSentEvents(request, headers) as stream:
                text = await streamed_answer(turn, answer, stream, token, usage=usage)
                if text is not None:
                    self._sessions.remember(request, conversation, text, place)
            return stream.response
        except ConnectionError:
            await stop_turn(turn, place)
            return nobody_there()

    async def _by_model(
        self,
        request: web.Request,
        body: Mapping[str, Any],
        target: ModelTarget,
        conversation: ClientConversation,
    ) -> web.StreamResponse:
        call, is_stream = call_of(target.name, body, conversation), flag_field(body, "stream")
        usage = flag_field(object_field(body, "stream_options"), "include_usage")
        async with self._answers.open(request, body, _new_id()) as stored:
            answer = ChatAnswer(target.name, stored.id, stored.made_at)
            if not is_stream:
                reply = await stored.whole(call)
                return web.json_response(whole_completion(reply, answer), dumps=dumps)
            stream = ServerSentEvents(request, {})
            async with aclosing(stored.pieces(call)) as pieces:
                try:
                    async with stream:
                        await stream_completion(pieces, answer, stream, usage=usage)
                except ConnectionError:
                    await stored.finish(pieces)
            return stream.response


async def agent_turn(
    service: Service,
    request: web.Request,
    target: ModelTarget,
    conversation: ClientConversation,
    place: MessagePlace,
) -> AgentAnswer:
    """Raises `KoreError` where nothing is said."""
    speaker = Speaker(service, access_of(request))
    text = conversation.words(is_new=place.is_new)
    _check_not_empty(text, conversation)
    if place.is_new and (title := conversation.title()):
        # Else it would be called by Kore's own words about the system message.
        await service.rename_session(place.session, title)
    media = tuple([await speaker.store_picture(one) for one in conversation.pictures()])
    order = AgentOrder(place, text, media, target.agent)
    return AgentAnswer(speaker, order)


async def stop_turn(turn: AgentAnswer, place: MessagePlace) -> None:
    """The client has left: nobody waits for the answer, unless they may come back for it."""
    if not place.is_kept:
        await turn.stop()


def nobody_there() -> web.Response:
    """What is answered to a client that has left: nothing is sent any more."""
    return web.Response(status=499)


def _new_id() -> str:
    return f"chatcmpl-{os.urandom(12).hex()}"


def check_words(request: web.Request, conversation: ClientConversation) -> None:
    """Before a session is made for them. Raises `KoreError` for what this token may not say."""
    text = conversation.words(is_new=False)
    if not access_of(request).allows("admin"):
        check_message(access_of(request), {"text": text})
    if not (conversation.system or conversation.earlier):
        _check_not_empty(text, conversation)


def _check_not_empty(text: str, conversation: ClientConversation) -> None:
    if not text.strip() and not conversation.pictures():
        raise ApiError(400, t("the message is empty"), param="messages")


def check_may_speak(request: web.Request) -> None:
    """Raises `PolicyDenied`."""
    if not access_of(request).allows("chat"):
        raise PolicyDenied(
            t("{call} needs a token with the scope {scope}", call=request.path, scope="chat")
        )
