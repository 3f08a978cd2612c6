"""Routes of the OpenAI-compatible API."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from aiohttp import web

from agent.errors import KoreError
from agent.i18n import t
from agent.serialization import dumps
from gateway.control.protocol import REQUEST_LIMIT_BYTES
from gateway.control.service import Service
from gateway.server.call_routes import json_object, set_language
from gateway.server.guard import access_of
from gateway.server.openai_api.chat_completions import ChatCompletions
from gateway.server.openai_api.errors import ApiError, error_response
from gateway.server.openai_api.model_names import model_entries, unknown_model
from gateway.server.openai_api.request_sessions import RequestSessions
from gateway.server.openai_api.responses import Responses
from gateway.server.openai_api.stored_answers import StoredAnswers
from gateway.server.revocation import RevocationWatch

# Time limit for receiving the body of a request.
_BODY_TIMEOUT_S = 30.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
BodyHandler = Callable[[web.Request, Mapping[str, Any]], Awaitable[web.StreamResponse]]


def add_openai_routes(app: web.Application, service: Service, revocations: RevocationWatch) -> None:
    """Add the routes; the application's middleware checks Host, Origin and token."""

    async def list_models(request: web.Request) -> web.Response:
        data = await model_entries(service, access_of(request))
        return web.json_response({"object": "list", "data": data}, dumps=dumps)

    async def show_model(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        for entry in await model_entries(service, access_of(request)):
            if entry["id"] == name:
                return web.json_response(entry, dumps=dumps)
        raise unknown_model(name)

    app.router.add_get("/v1/models", _with_api_errors(list_models))
    app.router.add_get("/v1/models/{name:.+}", _with_api_errors(show_model))
    sessions = RequestSessions(service)
    answers = StoredAnswers(service)
    chat = ChatCompletions(service, sessions, answers)
    responses = Responses(service, sessions, answers)
    app.router.add_post(
        "/v1/chat/completions", _with_api_errors(_with_body(chat.answer, revocations))
    )
    app.router.add_post(
        "/v1/responses", _with_api_errors(_with_body(responses.answer, revocations))
    )


def _with_api_errors(handler: Handler) -> Handler:
    """Return the handler with errors in OpenAI's format."""

    async def handle(request: web.Request) -> web.StreamResponse:
        set_language(request)
        try:
            return await handler(request)
        except KoreError as exc:
            return error_response(exc)

    return handle


def _with_body(handler: BodyHandler, revocations: RevocationWatch) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        if request.content_type != "application/json":
            words = t(
                "Content-Type: found {found}, expected application/json",
                found=request.content_type[:80],
            )
            raise ApiError(415, words)
        try:
            async with asyncio.timeout(_BODY_TIMEOUT_S):
                data = await request.read()
        except TimeoutError:
            raise ApiError(408, t("the request took too long to arrive")) from None
        except web.HTTPRequestEntityTooLarge:
            size = REQUEST_LIMIT_BYTES
            raise ApiError(413, t("a request is limited to {size:,} bytes", size=size)) from None
        try:
            body = json_object(data)
        except KoreError as exc:
            raise ApiError(400, str(exc)) from exc
        with revocations.watched(access_of(request), partial(_hang_up, request)):
            return await handler(request, body)

    return handle


async def _hang_up(request: web.Request) -> None:
    """Close the connection, which the handler treats as a disconnected client."""
    if request.transport is not None:
        request.transport.close()
