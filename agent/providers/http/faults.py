"""What a server says when it refuses, as one of our errors and one sentence for a person.

Status codes: https://platform.openai.com/docs/guides/error-codes
"""

import json
import re
import time
from collections.abc import Mapping
from typing import Any

from agent.errors import ProviderError
from agent.providers.http.error_mapping import ErrorResponse, map_error
from agent.providers.http.transport import Endpoint

_SAID_CHARS = 300

# OpenAI, Groq, Gemini, LiteLLM: "Please try again in 7m12s", "retry in 36.4s", "in 5 seconds".
_WAIT = re.compile(
    r"\b(?:re)?try(?: again)? in (?=\d)(?:(\d+) ?h(?:ours?)?)? ?(?:(\d+) ?m(?:in(?:utes?)?)?(?!s))?"
    r" ?(?:(\d+(?:\.\d+)?) ?s(?:ec(?:onds?)?)?)?(?:(\d+(?:\.\d+)?) ?ms)?",
    re.IGNORECASE,
)
_KEY_LIKE = re.compile(r"\b(?:sk|pk|gsk|xai|key|AIza)[-_A-Za-z0-9*.]{8,}|Bearer\s+\S+")
_CODE_STATUS = {
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "invalid_request_error": 400,
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "insufficient_quota": 402,
    "timeout_error": 408,
    "request_too_large": 413,
    "overloaded_error": 529,
    "billing_error": 402,
}


def error_from_response(
    endpoint: Endpoint, model: str, status: int, headers: Mapping[str, str], body: bytes
) -> ProviderError:
    """The error for a response other than 2xx."""
    try:
        data = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        data = None
    said, codes = _read(endpoint, data)
    wait_s = retry_after_s(headers)
    wait_s = _said_wait_s(said) if wait_s is None else wait_s
    return map_error(endpoint, model, ErrorResponse(status, said, codes, wait_s))


def from_payload(
    endpoint: Endpoint, model: str, payload: Mapping[str, Any]
) -> ProviderError | None:
    """The error that a chunk of a stream carries, if it does."""
    choices = payload.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    data = payload if payload.get("error") else choice
    if not isinstance(data, dict) or not data.get("error"):
        return None
    said, codes = _read(endpoint, data)
    numbers = [int(code) for code in codes if code.isdecimal() and len(code) == 3]
    known = [_CODE_STATUS[code] for code in codes if code in _CODE_STATUS]
    status = next(iter([*numbers, *sorted(known, reverse=True)]), 500)
    return map_error(endpoint, model, ErrorResponse(status, said, codes, _said_wait_s(said)))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds from `retry-after-ms` or `retry-after`, which is seconds or an HTTP date."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        return seconds if 0 <= seconds < float("inf") else None
    return _until(headers["retry-after"]) if "retry-after" in headers else None


def _said_wait_s(said: str) -> float | None:
    """Seconds from "try again in 6m0s", which some say in words alone."""
    found = _WAIT.search(said)
    if found is None or not any(found.groups()):
        return None
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000


def _until(date: str) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _read(endpoint: Endpoint, data: object) -> tuple[str, frozenset[str]]:
    """What the server said and its codes, from `{"error": …}` in any of its shapes."""
    if isinstance(data, list) and data:
        data = data[0]
    error = data.get("error", data) if isinstance(data, dict) else None
    if isinstance(error, str):
        return _safe(endpoint, error), frozenset()
    if not isinstance(error, dict):
        return "", frozenset()
    said = error.get("message") or error.get("detail") or error.get("msg") or ""
    codes = {str(error[name]) for name in ("code", "type", "status") if error.get(name)}
    return _safe(endpoint, said if isinstance(said, str) else json.dumps(said)), frozenset(codes)


def _safe(endpoint: Endpoint, text: str) -> str:
    """One short line without keys, which some servers echo."""
    for secret in endpoint.secrets:
        text = text.replace(secret, "***")
    text = " ".join(_KEY_LIKE.sub("***", text).split())
    return text if len(text) <= _SAID_CHARS else text[:_SAID_CHARS] + "…"
