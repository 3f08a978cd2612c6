"""Mapping of HTTP error responses to exceptions."""

import json
import time
from email.utils import formatdate

import pytest

from agent.errors import (
    BadImage,
    BadThoughts,
    ContextTooLong,
    KeyRefused,
    ProviderError,
    RateLimited,
    Rejected,
    Unavailable,
)
from agent.providers.http.error_mapping import error_from_response, from_payload, retry_after_s
from agent.providers.http.transport import Endpoint
from agent.security.redaction import MARK

PLACE = Endpoint("groq", "https://api.groq.com/openai/v1", "gsk_secret-key-123", "GROQ_API_KEY")


def error_of(status: int, said: object) -> ProviderError:
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    return error_from_response(PLACE, "m", status, {}, body)


@pytest.mark.parametrize(
    "said",
    [
        {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}},
        {"error": {"message": "This model's maximum context length is 8192 tokens"}},
        {"error": {"message": "the request exceeds the available context size"}},
        [{"error": {"message": "The input token count (9) exceeds the maximum", "code": 400}}],
        {"message": "Prompt contains 9 tokens, too large for model with 8 maximum context length"},
        {"error": {"code": "context_length_exceeded", "message": ""}},
    ],
)
def test_messages_about_a_full_window_are_recognized(said: object) -> None:
    assert isinstance(error_of(400, said), ContextTooLong)


@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b"\xff", b"[]", b'"no"'])
def test_any_error_body_gives_one_sentence(body: bytes) -> None:
    error = error_of(502, body)
    assert isinstance(error, Unavailable)
    assert str(error).startswith("groq returned an error (status 502)")


def test_keys_are_never_repeated() -> None:
    text = "bad key gsk_secret-key-123 or sk-abc*****wxyz, header Bearer abcdef"
    error = error_of(401, {"error": {"message": text}})
    assert "secret-key" not in str(error)
    assert "wxyz" not in str(error)
    assert "abcdef" not in str(error)
    assert error.hint == "Check GROQ_API_KEY."


def test_headers_with_a_key_are_never_repeated() -> None:
    headers = {"X-Proxy-Token": "Bearer pr0xy-7Qx9f3", "X-Team": "blue-team"}
    place = Endpoint("openai", "https://proxy.example/v1", extra_headers=headers)
    text = b'{"error": "no pr0xy-7Qx9f3 for blue-team"}'
    assert f"no {MARK} for blue-team" in str(error_from_response(place, "m", 403, {}, text))


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ("messages.1.content.0: Invalid `signature` in `thinking` block", False),
        ("messages.1.content.0: Invalid `data` in `redacted_thinking` block", False),
        ("Invalid signature in thinking block. It is bound to a different conversation.", False),
        (
            "messages.3.content.1: `thinking` or `redacted_thinking` blocks in the latest assistant"
            " message cannot be modified.",
            False,
        ),
        ("messages.1.content.0.thinking: each thinking block must contain thinking", False),
        ("messages.647.content.0.thinking.signature: Field required", False),
        ("Invalid thought signature", False),
        ("Invalid value at 'thought_signature' (TYPE_BYTES), Base64 decoding failed", False),
        (
            "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found "
            "`tool_use`.",
            True,
        ),
        ("The `reasoning_content` in the thinking mode must be passed back to the API.", True),
        ("The `content[].thinking` in the thinking mode must be passed back to the API.", True),
        ("Missing `reasoning_content` field in the assistant message at message index 2.", True),
        (
            "thinking is enabled but reasoning_content is missing in assistant tool call message "
            "at index 2",
            True,
        ),
        ("Function call is missing a thought_signature in functionCall parts.", True),
    ],
)
@pytest.mark.parametrize("status", [400, 429, 500])
def test_rejected_thoughts_are_recognized(said: str, missing: bool, status: int) -> None:
    error = error_of(status, {"error": {"message": said}})
    assert isinstance(error, BadThoughts)
    assert error.missing is missing


@pytest.mark.parametrize(
    "said",
    [
        "messages.58.content.2.image.source.base64: image exceeds 5 MB maximum: 6500712 bytes",
        "messages.7.content.2.image.source.base64.data: At least one of the image dimensions "
        "exceed max allowed size: 8000 pixels",
        "Could not process image",
        "You uploaded an unsupported image. Please make sure your image is valid.",
        "Invalid base64 image_url.",
        "Unable to process input image",
        "Failed to load image or audio file",
    ],
)
@pytest.mark.parametrize("status", [400, 500])
def test_rejected_picture_is_recognized(said: str, status: int) -> None:
    assert isinstance(error_of(status, {"error": {"message": said}}), BadImage)


QUOTA = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("error", "wait_s"),
    [
        ({"message": f"{QUOTA}\nPlease retry in 36.4s.", "status": "RESOURCE_EXHAUSTED"}, 36.4),
        ({"message": QUOTA, "status": "RESOURCE_EXHAUSTED"}, None),
        ({"message": "Rate limit reached. Please try again in 7m12s."}, 432),
        ({"message": "Please try again in 250ms."}, 0.25),
        ({"message": "No deployments. Try again in 5 seconds."}, 5),
        ({"message": "try again in 2 hours 5 minutes"}, 7500),
        ({"message": "Try again in 6m0s"}, 360),
        ({"message": "try again in 1.2.3s, or in a while"}, None),
    ],
)
def test_temporary_limit_is_not_an_empty_account(error: object, wait_s: float | None) -> None:
    provider_error = error_of(429, [{"error": error}])
    assert isinstance(provider_error, RateLimited)
    assert provider_error.retry_after_s == wait_s


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (400, "API key not valid. Please pass a valid API key."),
        (400, "Incorrect API key provided: x"),
        (429, QUOTA),
    ],
)
def test_rejected_key_is_recognized(status: int, said: str) -> None:
    assert isinstance(error_of(status, {"error": {"message": said}}), KeyRefused)


def test_long_messages_are_cut() -> None:
    assert len(str(error_of(400, {"error": "x " * 5000}))) < 500


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
    ],
)
def test_retry_after_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds


def test_retry_after_may_be_a_date() -> None:
    result = retry_after_s({"retry-after": formatdate(time.time() + 3600, usegmt=True)})
    assert result is not None
    assert 3000 < result <= 3600


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "x", "code": 429}, RateLimited),
        ({"message": "x", "type": "rate_limit_error"}, RateLimited),
        ({"message": "x", "type": "invalid_request_error", "code": "bad"}, Rejected),
        ({"message": "x", "type": "overloaded_error"}, Unavailable),
        ({"message": "x", "code": "insufficient_quota"}, KeyRefused),
        ("just text", Unavailable),
    ],
)
def test_error_in_a_stream_maps_like_a_status(error: object, kind: type[ProviderError]) -> None:
    assert type(from_payload(PLACE, "m", {"error": error})) is kind
    assert type(from_payload(PLACE, "m", {"choices": [{"error": error}]})) is kind


def test_ordinary_chunk_is_not_an_error() -> None:
    assert from_payload(PLACE, "m", {"error": None, "choices": [{"delta": {}}]}) is None
