"""Parsing of calls to the Bot API, and the format of its errors.

https://core.telegram.org/bots/api#making-requests
"""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tests.fakes.bot_files import Upload
from tests.fakes.bot_text import Refusal
from tests.fakes.faults import Fault

PHRASES = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden: bot was blocked by the user",
    404: "Not Found",
    409: "Conflict: terminated by other getUpdates request; "
    "make sure that only one bot instance is running",
    500: "Internal Server Error",
}


def describe(code: int) -> str:
    """Return Telegram's usual description of a status."""
    return PHRASES.get(code, "Error")


async def parameters(request: web.Request) -> Mapping[str, Any]:
    """Return query, JSON body or form fields; telegram.Bot sends forms with JSON text values."""
    params: dict[str, Any] = dict(request.query)
    if request.content_type == "application/json":
        try:
            params |= await request.json()
        except ValueError:
            return params
    elif request.can_read_body:
        params |= {name: _whole(value) for name, value in (await request.post()).items()}
    return params


def _whole(value: Any) -> Any:
    if not isinstance(value, web.FileField):
        return value
    with value.file:
        return Upload(value.filename, value.file.read())


def refuse_by_script(fault: Fault) -> web.Response:
    """Return the response for a scripted status; 502 comes from a proxy."""
    if fault.code == 502 and fault.description is None:
        # Telegram's front-end servers respond with HTML, not with JSON.
        page = "<html><head><title>502 Bad Gateway</title></head></html>"
        return web.Response(status=502, text=page, content_type="text/html")
    if fault.code == 429:
        wait = fault.retry_after or 1
        return answer(
            Refusal(429, fault.description or f"Too Many Requests: retry after {wait}", wait)
        )
    return answer(Refusal(fault.code, fault.description or describe(fault.code)))


def answer(refusal: Refusal) -> web.Response:
    """Return a refusal in the Bot API's format."""
    body: dict[str, Any] = {
        "ok": False,
        "error_code": refusal.code,
        "description": refusal.description,
    }
    if refusal.retry_after is not None:
        body["parameters"] = {"retry_after": refusal.retry_after}
    if refusal.migrate_to is not None:
        body["parameters"] = {"migrate_to_chat_id": refusal.migrate_to}
    return web.json_response(body, status=refusal.code)
