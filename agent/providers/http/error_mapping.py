"""Mapping of vendors' error responses to provider errors, with advice for people."""

import json
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from agent.errors import (
    BadImage,
    BadThoughts,
    ContextTooLong,
    KeyRefused,
    NeedsResponses,
    NoEncryptedReasoning,
    NoImages,
    NotFound,
    NoThinking,
    NoTools,
    ProviderError,
    RateLimited,
    Rejected,
    TimedOut,
    Unavailable,
    WrongLimitName,
)
from agent.i18n import t
from agent.providers.http.transport import Endpoint, proxy_login_missing
from agent.records import frozen
from agent.security.redaction import MARK

_TOO_LONG_CODES = frozenset(
    {"context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded"}
)

_TOO_LARGE = "request too large"

# The patterns are compiled on first use, which most runs never reach: it takes 5 ms.
# OpenAI, Anthropic, Gemini, Mistral, llama.cpp, vLLM, Groq, Moonshot, in this order.
_TOO_LONG = (
    r"(?i)"
    r"maximum context length|prompt is too long|input token count .* exceeds|too large for model"
    r"|context (size|window)|context length|request too large|exceeded model token limit"
    r"|input is too long|reduce the length|exceed context limit"
)

# Ollama, OpenRouter, vLLM, llama.cpp, Groq.
_NO_TOOLS = (
    r"(?i)"
    r"does(n't| not) support (tools|(tool|function)[ -](use|call))|support tool use"
    r"|(tools?|tool (use|calling)|function calling)[`'\"]? (is|are) not supported"
    r"|tool choice requires|tools param requires"
)

# Ollama, Anthropic, OpenAI and vendors that copy its wording.
_NO_THINKING = (
    r"(?i)"
    r"does(n't| not) support (parameter )?(thinking|reasoning)"
    r"|(thinking|reasoning)[\w.`'\"]* (is|are) not supported"
    r"|(unsupported|unrecognized|unknown)[\w ]* (parameter|argument)[\w: ]*[`'\"]?"
    r"(reasoning|thinking|enable_thinking)"
)

# OpenAI and servers in front of it. https://github.com/openai/openai-openapi/issues/541
_NEEDS_RESPONSES = r"(?i)(use|in|with|supported by) (the )?[`'\"]?(/?v1/responses|responses api)"
_NO_ENCRYPTED_REASONING = r"(?i)encrypted[ _]content[`'\"]? is not supported"

# Anthropic, for blocks of another model, account or prompt, Gemini, and OpenAI.
# https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting
_BAD_THOUGHTS = (
    r"(?i)"
    r"invalid [`'\"]?(signature|data)[`'\"]? in [`'\"]?(redacted_)?thinking"
    r"|thinking[`'\"]? blocks[\w ]* cannot be modified|each thinking block must"
    r"|thinking\.signature|(invalid|corrupted) thought.signature"
    r"|thought_signature.*(TYPE_BYTES|base64)"
    r"|encrypted content .*could not be (verified|decrypted)|item with id 'rs_"
)

# Anthropic, DeepSeek in both of its formats, Moonshot, Gemini.
_MISSING_THOUGHTS = (
    r"(?i)"
    r"expected [`'\"]?thinking[`'\"]?.* but found"
    r"|(reasoning_content|content\[\]\.thinking)[`'\"]? .*must be passed back"
    r"|missing [`'\"]?reasoning_content|reasoning_content[`'\"]? is missing"
    r"|missing a [`'\"]?thought_signature"
)

# OpenAI, Azure, and servers that know only one of the two names.
_WRONG_LIMIT = (
    r"(?i)"
    r"(unsupported|unrecognized|unknown|unexpected|extra|not permitted)[^.]*"
    r"max_(completion_)?tokens|max_(completion_)?tokens[`'\"]?:? [^.]*"
    r"(not supported|unsupported|not permitted|unknown|unrecognized|unexpected)"
)

# OpenRouter, Ollama, llama.cpp, vLLM, OpenAI, DeepSeek.
_NO_IMAGES = (
    r"(?i)"
    r"support (image|vision)|(image|vision)[\w ]* (is|are) not supported|image input is not"
    r"|not a multimodal model|invalid content type.*image_url|unknown variant [`'\"]?image_url"
    r"|missing data required for image input"
)

# Anthropic, OpenAI, Gemini, Ollama and llama.cpp.
_BAD_IMAGE = (
    r"(?i)"
    r"image(s| dimensions)? exceeds?\b|(could not|failed to|unable to|cannot) \w+[\w ]* image"
    r"|(invalid|unsupported|too many) (base64 )?images?(_url)?\b|invalid_image|image_parse_error"
    r"|image[\w ]* (is|was) (not valid|invalid|too large|corrupt)|image\.source\."
)

_NO_CREDIT = (
    r"(?i)"
    r"insufficient[ _](quota|balance|credit)|exceeded your current quota|billing"
    r"|credit balance is too low|suspended due to"
)

_BAD_KEY = r"(?i)api[ _-]?key (is )?(not valid|invalid)|(incorrect|invalid) api key"


@frozen
class ErrorResponse:
    """Error response of a server; `codes` are its code and type, `detail` is safe to show."""

    status: int
    detail: str
    codes: frozenset[str] = frozenset()
    retry_after_s: float | None = None


def map_error(endpoint: Endpoint, model: str, fault: ErrorResponse) -> ProviderError:
    """Return the error for a response; its text never contains a key."""
    error = _map_error(endpoint, model, fault)
    error.status = fault.status
    return error


def _map_error(endpoint: Endpoint, model: str, fault: ErrorResponse) -> ProviderError:
    vendor, status = endpoint.vendor, fault.status
    detail = f": {fault.detail}" if fault.detail else ""
    bad, missing = re.search(_BAD_THOUGHTS, detail), re.search(_MISSING_THOUGHTS, detail)
    # Some proxies report it as 429 or 500.
    if status >= 400 and (bad or missing):
        return BadThoughts(
            t(
                "{vendor} rejected earlier thinking blocks in this conversation for {model}{said}",
                vendor=vendor,
                model=model,
                said=detail,
            ),
            missing=not bad,
        )
    if _is_too_long(fault):
        too_long = ContextTooLong(
            t(
                "the conversation is too long for the context window of {vendor}/{model}{said}",
                vendor=vendor,
                model=model,
                said=detail,
            )
        )
        too_long.by_size = fault.status == 413 or (
            fault.status != 429 and _TOO_LARGE in fault.detail.lower()
        )
        return too_long
    if status == 402 or (status in (403, 429) and _has_no_credit(fault)):
        return KeyRefused(
            t("the account at {vendor} has no credit left{said}", vendor=vendor, said=detail),
            hint=t("Top up the account, or choose another model."),
        )
    if status == 429:
        return RateLimited(
            t("{vendor} rate limit reached{said}", vendor=vendor, said=detail),
            retry_after_s=fault.retry_after_s,
        )
    if status == 408:
        return TimedOut(t("{vendor} timed out{said}", vendor=vendor, said=detail))
    if status in (404, 500, 501) and _rejection_type(detail) is not Rejected:
        return _rejection_type(detail)(
            t(
                "{vendor} refused the request for {model} (status {status}){said}",
                vendor=vendor,
                model=model,
                status=status,
                said=detail,
            )
        )
    if status >= 500 or status in (409, 425):
        return Unavailable(
            t(
                "{vendor} returned an error (status {status}){said}",
                vendor=vendor,
                status=status,
                said=detail,
            )
        )
    return _map_rejection(endpoint, model, status, detail)


def _map_rejection(endpoint: Endpoint, model: str, status: int, detail: str) -> Rejected:
    vendor = endpoint.vendor
    key = endpoint.key_variable or "api_key"
    used = endpoint.key_source or key
    if status in (401, 403) and not endpoint.api_key:
        return KeyRefused(
            t("{vendor} requires an API key, and none is set{said}", vendor=vendor, said=detail),
            hint=t("Set {key}.", key=key),
        )
    if status == 401 or re.search(_BAD_KEY, detail):
        return KeyRefused(
            t("{vendor} rejected the API key{said}", vendor=vendor, said=detail),
            hint=t("Check {key}.", key=used),
        )
    if status == 403:
        return KeyRefused(
            t(
                "{vendor} does not allow this key to use {model}{said}",
                vendor=vendor,
                model=model,
                said=detail,
            ),
            hint=t("Check {key} and the permissions of its account.", key=used),
            every_model=False,
        )
    if status == 404:
        return NotFound(
            t(
                "{vendor} at {api_base} does not know the model {model!r}{said}",
                vendor=vendor,
                api_base=endpoint.api_base,
                model=model,
                said=detail,
            ),
            hint=t("Check the model's name and api_base."),
        )
    if status == 407 and endpoint.proxy:
        return proxy_login_missing(endpoint.proxy)
    if 300 <= status < 400:
        return Rejected(
            t(
                "{api_base} redirects to another address (status {status})",
                api_base=endpoint.api_base,
                status=status,
            ),
            hint=t("Set api_base to the final address."),
        )
    return _rejection_type(detail)(
        t(
            "{vendor} refused the request for {model} (status {status}){said}",
            vendor=vendor,
            model=model,
            status=status,
            said=detail,
        )
    )


def _rejection_type(detail: str) -> type[Rejected]:
    if re.search(_NEEDS_RESPONSES, detail):
        return NeedsResponses
    if re.search(_NO_ENCRYPTED_REASONING, detail):
        return NoEncryptedReasoning
    if re.search(_WRONG_LIMIT, detail):
        return WrongLimitName
    if re.search(_NO_TOOLS, detail):
        return NoTools
    if re.search(_NO_IMAGES, detail):
        return NoImages
    if re.search(_BAD_IMAGE, detail):
        return BadImage
    return NoThinking if re.search(_NO_THINKING, detail) else Rejected


def _is_too_long(fault: ErrorResponse) -> bool:
    if fault.codes & _TOO_LONG_CODES or fault.status == 413:
        return True
    if fault.status == 429:
        return _TOO_LARGE in fault.detail.lower()
    return fault.status in (400, 422, 500) and bool(re.search(_TOO_LONG, fault.detail))


def _has_no_credit(fault: ErrorResponse) -> bool:
    # Gemini reports this for every limit, including limits that end within a minute.
    if "RESOURCE_EXHAUSTED" in fault.codes:
        return False
    return "insufficient_quota" in fault.codes or bool(re.search(_NO_CREDIT, fault.detail))


_SAID_CHARS = 300

# OpenAI, Groq, Gemini, LiteLLM: "Please try again in 7m12s", "retry in 36.4s", "in 5 seconds".
_WAIT = (
    r"(?i)"
    r"\b(?:re)?try(?: again)? in (?=\d)(?:(\d+) ?h(?:ours?)?)? ?(?:(\d+) ?m(?:in(?:utes?)?)?(?!s))?"
    r" ?(?:(\d+(?:\.\d+)?) ?s(?:ec(?:onds?)?)?)?(?:(\d+(?:\.\d+)?) ?ms)?"
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
    """Return the error for a response other than 2xx."""
    try:
        data = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        data = None
    detail, codes = _read(endpoint, data)
    wait_s = retry_after_s(headers)
    wait_s = _wait_s_in_text(detail) if wait_s is None else wait_s
    return map_error(endpoint, model, ErrorResponse(status, detail, codes, wait_s))


def from_payload(
    endpoint: Endpoint, model: str, payload: Mapping[str, Any]
) -> ProviderError | None:
    """Return the error in a chunk of a stream, if any."""
    if payload.get("type") == "error" and not payload.get("error"):
        payload = {"error": payload}
    elif payload.get("type") == "response.failed":
        response = payload.get("response")
        failure = response.get("error") if isinstance(response, dict) else None
        payload = {"error": failure or {"message": "", "code": "server_error"}}
    choices = payload.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    data = payload if payload.get("error") else choice
    if not isinstance(data, dict) or not data.get("error"):
        return None
    detail, codes = _read(endpoint, data)
    numbers = [int(code) for code in codes if code.isdecimal() and len(code) == 3]
    statuses = [_CODE_STATUS[code] for code in codes if code in _CODE_STATUS]
    status = next(iter([*numbers, *sorted(statuses, reverse=True)]), 500)
    return map_error(endpoint, model, ErrorResponse(status, detail, codes, _wait_s_in_text(detail)))


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds from `retry-after-ms` or `retry-after` (seconds or an HTTP date)."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        return seconds if 0 <= seconds < float("inf") else None
    return _until(headers["retry-after"]) if "retry-after" in headers else None


def _wait_s_in_text(detail: str) -> float | None:
    """Return the seconds from "try again in 6m0s", which some vendors give only in text."""
    match = re.search(_WAIT, detail)
    if match is None or not any(match.groups()):
        return None
    hours, minutes, seconds, milliseconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000


def _until(date: str) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _read(endpoint: Endpoint, data: object) -> tuple[str, frozenset[str]]:
    """Return the server's message and codes from `{"error": …}` in any of its shapes."""
    if isinstance(data, list) and data:
        data = data[0]
    error = data.get("error", data) if isinstance(data, dict) else None
    if isinstance(error, str):
        return _safe(endpoint, error), frozenset()
    if not isinstance(error, dict):
        return "", frozenset()
    detail = error.get("message") or error.get("detail") or error.get("msg") or ""
    codes = {str(error[name]) for name in ("code", "type", "status") if error.get(name)}
    return _safe(endpoint, detail if isinstance(detail, str) else json.dumps(detail)), frozenset(
        codes
    )


def _safe(endpoint: Endpoint, text: str) -> str:
    """Return one short line without keys, which some servers echo."""
    for secret in endpoint.secrets:
        text = text.replace(secret, MARK)
    text = " ".join(_KEY_LIKE.sub(MARK, text).split())
    return text if len(text) <= _SAID_CHARS else text[:_SAID_CHARS] + "…"
