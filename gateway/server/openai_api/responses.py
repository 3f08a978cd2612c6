"""Handler for `POST /v1/responses`."""

import os
import re
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from aiohttp import web

from agent.i18n import t
from agent.types import Message
from gateway.control.service import Service
from gateway.server.guard import access_of
from gateway.server.openai_api.agent_answer import TurnEnd, answer_text
from gateway.server.openai_api.answer_stream import respond, write_reply, write_turn
from gateway.server.openai_api.chat_completions import (
    agent_turn,
    check_may_speak,
    check_words,
    stop_turn,
)
from gateway.server.openai_api.errors import ApiError
from gateway.server.openai_api.fields import (
    check_supported,
    check_supported_by_agent,
    check_tools,
    flag_field,
    text_field,
)
from gateway.server.openai_api.model_calls import response_call
from gateway.server.openai_api.model_names import SIDE_MODEL, ModelTarget, find_target
from gateway.server.openai_api.request_sessions import (
    SESSION_HEADER,
    RequestSessions,
    digest_of,
)
from gateway.server.openai_api.response_input import read_input
from gateway.server.openai_api.response_writer import ResponseWriter
from gateway.server.openai_api.stored_answers import StoredAnswers
from gateway.server.speaker import Speaker

_ID = re.compile(r"resp_[0-9a-f]{1,64}")


class Responses:
    """Handler for responses by Kore's agent or by a model.

    A response of the agent is bound to its session; a conversation with a model is stored for a
    limited time. Each token has its own responses.
    """

    def __init__(self, service: Service, sessions: RequestSessions, answers: StoredAnswers) -> None:
        self._service = service
        self._sessions = sessions
        self._answers = answers

    async def answer(self, request: web.Request, body: Mapping[str, Any]) -> web.StreamResponse:
        """Answer a request. Raises `KoreError`."""
        check_may_speak(request)
        target = await find_target(self._service, body, access_of(request))
        check_supported(body)
        if flag_field(body, "background"):
            raise ApiError(400, t("a response cannot run in the background"), param="background")
        if target.agent is None:
            return await self._by_model(request, body, target)
        return await self._by_agent(request, body, target)

    async def _by_agent(
        self, request: web.Request, body: Mapping[str, Any], target: ModelTarget
    ) -> web.StreamResponse:
        check_tools(body)
        speaker = Speaker(self._service, access_of(request))
        token = speaker.token.name
        conversation = await read_input(body)
        if _previous(body) is None and self._sessions.is_side_request(request, conversation):
            return await self._by_model(request, body, target, SIDE_MODEL)
        check_supported_by_agent(body)
        check_words(request, conversation)
        session = await self._session_of(speaker, _previous(body))
        user = text_field(body, "user")
        place = await self._sessions.find(request, conversation, user, session)
        turn = await agent_turn(self._service, request, target, conversation, place)
        writer = ResponseWriter(body, target.name, f"resp_{place.event_id.removeprefix('api-')}")
        await self._service.bind_session(_lane(speaker, writer.id), place.session)
        headers = {SESSION_HEADER: place.session}
        is_stream = flag_field(body, "stream")
        async with aclosing(write_turn(turn, writer, token)) as steps:
            response, end = await respond(request, writer, steps, headers, is_stream=is_stream)
        if isinstance(end, TurnEnd):
            self._sessions.remember(request, conversation, answer_text(end, token), place)
        elif end is None:
            await stop_turn(turn, place)
        return response

    async def _by_model(
        self,
        request: web.Request,
        body: Mapping[str, Any],
        target: ModelTarget,
        model: str | None = None,
    ) -> web.StreamResponse:
        before = await self._conversation_of(request, _previous(body))
        conversation = await read_input(body, before)
        call = response_call(model or target.name, body, conversation)
        is_stream = flag_field(body, "stream")
        new_id = f"resp_{os.urandom(16).hex()}"
        async with self._answers.open(request, body, new_id, conversation.messages) as stored:
            writer = ResponseWriter(body, target.name, stored.id, stored.made_at)
            pieces = stored.pieces(call, is_stream=is_stream)
            async with aclosing(write_reply(pieces, writer)) as steps:
                response, end = await respond(request, writer, steps, {}, is_stream=is_stream)
                if end is None:
                    await stored.finish(steps)
            return response

    async def _conversation_of(
        self, request: web.Request, response_id: str | None
    ) -> tuple[Message, ...]:
        if response_id is None:
            return ()
        token = access_of(request).identity
        answer = await self._service.find_api_answer(token, response_id)
        if answer is None or answer.conversation is None:
            raise _no_previous(response_id)
        return answer.conversation

    async def _session_of(self, speaker: Speaker, response_id: str | None) -> str | None:
        if response_id is None:
            return None
        session = await self._service.bound_session(_lane(speaker, response_id))
        if session is None:
            raise _no_previous(response_id)
        return session


def _previous(body: Mapping[str, Any]) -> str | None:
    """Return the id of the previous response. Raises `ApiError` for an invalid id."""
    response_id = text_field(body, "previous_response_id")
    if response_id and not _ID.fullmatch(response_id):
        raise _no_previous(response_id)
    return response_id or None


def _lane(speaker: Speaker, response_id: str) -> str:
    return speaker.lane(f"api-response-{digest_of(speaker.token.identity, response_id)}")


def _no_previous(response_id: str) -> ApiError:
    return ApiError(
        404,
        t("there is no response {name!r}", name=response_id[:80]),
        "previous_response_not_found",
        "previous_response_id",
    )
