"""Errors in the format that OpenAI's clients expect."""

from typing import Any

from aiohttp import web

from agent.errors import ConfigError, KoreError, PolicyDenied
from agent.i18n import t
from gateway.config.json_files.document import kind_of
from gateway.core.errors import ConnectionLost, QueueFull
from gateway.server.speaker import UnknownSession

# Marks a missing value, because None is a value.
UNNAMED = object()


class ApiError(KoreError):
    """Error for a request that cannot be answered; `param` is the invalid field."""

    def __init__(
        self, status: int, message: str, code: str = "invalid_request", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


def bad_field(param: str, expected: str, value: Any = UNNAMED) -> ApiError:
    """Return an error for an invalid field; it shows only the type of `value`."""
    if value is UNNAMED:
        words = t("{name}: expected {expected}", name=param, expected=expected)
    else:
        kind = t("no value") if value is None else kind_of(value)
        words = t(
            "{where}: found {found}, expected {expected}",
            where=param,
            found=kind,
            expected=expected,
        )
    return ApiError(400, words, param=param)


def api_error_of(error: KoreError) -> ApiError:
    """Return the same error with a status."""
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
    return with_status(error, status)


def with_status(error: KoreError, status: int) -> ApiError:
    words = f"{error} ({error.hint})" if error.hint else str(error)
    return ApiError(status, words, error.code)


def error_body(error: KoreError) -> dict[str, Any]:
    api_error = api_error_of(error)
    kind = "server_error" if api_error.status >= 500 else "invalid_request_error"
    return {
        "error": {
            "message": str(api_error),
            "type": kind,
            "param": api_error.param,
            "code": api_error.code,
        },
    }


def unknown_path(method: str, path: str) -> ApiError:
    """Return an error for an unknown path below `/v1`."""
    return ApiError(
        404,
        t(
            "there is no {method} {path} here; the supported paths of OpenAI's API are {paths}",
            method=method,
            path=path[:80],
            paths="GET /v1/models, POST /v1/chat/completions, POST /v1/responses",
        ),
        "not_found",
    )


def error_response(error: KoreError) -> web.Response:
    return web.json_response(error_body(error), status=api_error_of(error).status)
