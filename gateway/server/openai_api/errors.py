"""Errors as OpenAI's clients expect them."""

from typing import Any

from aiohttp import web

from agent.errors import ConfigError, KoreError, PolicyDenied
from agent.i18n import t
from gateway.core.errors import ConnectionLost, QueueFull
from gateway.server.speaker import UnknownSession


class ApiError(KoreError):
    """A request that is not answered; `param` is the field that is to blame."""

    def __init__(
        self, status: int, message: str, code: str = "invalid_request", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


def bad_field(param: str, expected: str) -> ApiError:
    """Of a field that is not what it should be."""
    return ApiError(
        400,
        t("{name}: found something else, expected {expected}", name=param, expected=expected),
        param=param,
    )


def api_error_of(error: KoreError) -> ApiError:
    """The same error with a status."""
    match error:
        case ApiError():
            return error
        case UnknownSession():
            status = 404
        case PolicyDenied():
            status = 403
        case ConnectionLost():
            status = 503
        case QueueFull():
            status = 429
        case ConfigError():
            status = 400
        case _:
            status = 502
    words = f"{error} ({error.hint})" if error.hint else str(error)
    return ApiError(status, words, error.code)


def error_body(error: KoreError) -> dict[str, Any]:
    one = api_error_of(error)
    kind = "server_error" if one.status >= 500 else "invalid_request_error"
    return {
        "error": {"message": str(one), "type": kind, "param": one.param, "code": one.code},
    }


def error_response(error: KoreError) -> web.Response:
    return web.json_response(error_body(error), status=api_error_of(error).status)
