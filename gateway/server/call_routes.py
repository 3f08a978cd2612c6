"""HTTP route of calls: `POST /v1/calls/NAME` with the arguments as a JSON object."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from agent.errors import ConfigError, KoreError, PolicyDenied
from agent.i18n import current_locale, language_of, set_locale, t
from agent.serialization import dumps
from gateway.control.calls import Call, find_call
from gateway.control.service import Service
from gateway.core.caller import set_caller
from gateway.core.errors import ConnectionLost, QueueFull
from gateway.server.budgets import BudgetExceeded, TokenBudgets
from gateway.server.call_scopes import as_owner, check_call
from gateway.server.guard import access_of, refusal
from gateway.server.tokens import AccessToken

# Time limit for receiving the body of a request.
_BODY_TIMEOUT_S = 30.0


class UnknownCall(KoreError):
    """Error for an unknown call."""

    code = "unknown-call"


def add_call_routes(app: web.Application, service: Service, budgets: TokenBudgets) -> None:
    async def answer(request: web.Request) -> web.Response:
        set_language(request)
        try:
            async with asyncio.timeout(_BODY_TIMEOUT_S):
                arguments = json_object(await request.read())
            call, values = prepared(access_of(request), request.match_info["name"], arguments)
            if call.shape == "stream":
                raise KoreError(t("{name} is a stream: use /v1/connect", name=call.name))
            async with budgets.working(access_of(request)):
                value = encoded(call, await getattr(service, call.name)(**values))
        except TimeoutError:
            return refusal(408, KoreError(t("the request took too long to arrive")))
        except KoreError as exc:
            return refusal(status_of(exc), exc)
        return web.json_response({"value": value}, dumps=dumps)

    app.router.add_post("/v1/calls/{name}", answer)


def prepared(
    access: AccessToken, name: str, arguments: Mapping[str, Any]
) -> tuple[Call, dict[str, Any]]:
    """Return the call and its decoded arguments.

    Raises `KoreError` for an unknown call, a call that the token does not allow, and wrong
    arguments.
    """
    call = find_call(name)
    if call is None:
        raise UnknownCall(t("there is no call {name!r}", name=name))
    check_call(access, call, arguments)
    set_caller(f"token {access.name}")
    return call, as_owner(access, name, call.decode_arguments(arguments))


def encoded(call: Call, result: Any) -> Any:
    """Return the JSON form of a value, or of each item of a list."""
    if call.shape == "list":
        return [call.encode_result(item) for item in result]
    return call.encode_result(result)


def json_object(data: bytes | str) -> dict[str, Any]:
    """Return a JSON object. Raises `KoreError` for anything else."""
    try:
        value = json.loads(data or b"{}")
    except (ValueError, RecursionError) as exc:
        raise KoreError(t("found invalid JSON, expected an object")) from exc
    if not isinstance(value, dict):
        raise KoreError(t("found JSON that is not an object, expected an object"))
    return value


def status_of(error: KoreError) -> int:
    """Return the HTTP status for an error."""
    match error:
        case PolicyDenied():
            return 403
        case UnknownCall():
            return 404
        case ConnectionLost():
            return 503
        case QueueFull() | BudgetExceeded():
            return 429
        case ConfigError():
            return 500
    return 400


def set_language(request: web.Request) -> None:
    """Set the language of this task, which serves one request, to the caller's language."""
    language = request.headers.get("Accept-Language", "").split(",")[0].split(";")[0].strip()
    set_locale(language_of(language) or current_locale())
