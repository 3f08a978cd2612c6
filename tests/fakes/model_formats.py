"""API formats of the fake model, each at its own address."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web

from tests.fakes import anthropic_wire, model_checks, ollama_wire, responses_wire
from tests.fakes.model_script import Dialect, ReplyScript
from tests.fakes.model_wire import ReplyWriter

Headers = Mapping[str, str]


class Writer(Protocol):
    """Writer of one reply to one request body."""

    content_type: str

    def events(self, usage: Mapping[str, Any]) -> Iterator[bytes]: ...

    def error_event(self) -> bytes: ...

    def garbage_event(self) -> bytes: ...

    def whole(self, usage: Mapping[str, Any]) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Format:
    """An API format: `key` finds the key in a request's headers, `error` formats a refusal."""

    writer: Callable[[ReplyScript, Dialect, Mapping[str, Any]], Writer]
    key: Callable[[Headers], str | None]
    complaint: Callable[[Mapping[str, Any], Headers], str | None]
    as_openai: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    error: Callable[[Mapping[str, Any]], dict[str, Any]]


def refuse(reply: ReplyScript, format_: Format) -> web.Response:
    """Return the HTTP error of an error reply."""
    headers = {"Retry-After": reply.retry_after} if reply.retry_after is not None else None
    error = reply.error or {"message": "The server had an error", "type": "server_error"}
    return web.json_response(format_.error(error), status=reply.status, headers=headers)


def _bearer(headers: Headers) -> str | None:
    return headers.get("Authorization", "").removeprefix("Bearer ") or None


FORMATS = {
    "/v1/chat/completions": Format(
        ReplyWriter,
        _bearer,
        lambda body, _: model_checks.complaint(body),
        lambda body: body,
        lambda error: {"error": dict(error)},
    ),
    "/v1/messages": Format(
        anthropic_wire.AnthropicWriter,
        lambda headers: headers.get("x-api-key"),
        lambda body, headers: anthropic_wire.complaint(body, headers.get("anthropic-version")),
        anthropic_wire.as_openai,
        lambda error: {
            "type": "error",
            "error": {"type": error["type"], "message": error["message"]},
            "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy",
        },
    ),
    "/v1/responses": Format(
        responses_wire.ResponsesWriter,
        _bearer,
        lambda body, _: responses_wire.complaint(body),
        responses_wire.as_openai,
        lambda error: {"error": dict(error)},
    ),
    "/api/chat": Format(
        ollama_wire.OllamaWriter,
        _bearer,
        lambda body, _: ollama_wire.complaint(body),
        lambda body: body,
        lambda error: {"error": error["message"]},
    ),
}
