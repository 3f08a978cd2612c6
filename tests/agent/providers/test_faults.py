"""Refusals as errors."""

import json
import time
from email.utils import formatdate

import pytest

from agent.errors import (
    ContextTooLong,
    KeyRefused,
    ProviderError,
    RateLimited,
    Rejected,
    Unavailable,
)
from agent.providers.faults import from_payload, from_response, retry_after_s
from agent.providers.transport import Endpoint

PLACE = Endpoint("groq", "https://api.groq.com/openai/v1", "gsk_secret-key-123", "GROQ_API_KEY")


def refused(status: int, said: object) -> ProviderError:
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    return from_response(PLACE, "m", status, {}, body)


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
def test_vendors_words_for_a_full_window_are_known(said: object) -> None:
    assert isinstance(refused(400, said), ContextTooLong)


@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b"\xff", b"[]", b'"no"'])
def test_any_body_gives_one_sentence(body: bytes) -> None:
    error = refused(502, body)
    assert isinstance(error, Unavailable)
    assert str(error).startswith("groq has trouble (status 502)")


def test_keys_are_never_repeated() -> None:
    said = "bad key gsk_secret-key-123 or sk-abc*****wxyz, header Bearer abcdef"
    error = refused(401, {"error": {"message": said}})
    assert "secret" not in str(error)
    assert "wxyz" not in str(error)
    assert "abcdef" not in str(error)
    assert error.hint == "Check GROQ_API_KEY."


def test_long_texts_are_cut() -> None:
    assert len(str(refused(400, {"error": "x " * 5000}))) < 500


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
    found = retry_after_s({"retry-after": formatdate(time.time() + 3600, usegmt=True)})
    assert found is not None
    assert 3000 < found <= 3600


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
def test_an_error_in_the_stream_is_told_like_a_status(
    error: object, kind: type[ProviderError]
) -> None:
    assert type(from_payload(PLACE, "m", {"error": error})) is kind
    assert type(from_payload(PLACE, "m", {"choices": [{"error": error}]})) is kind


def test_a_usual_chunk_is_no_error() -> None:
    assert from_payload(PLACE, "m", {"error": None, "choices": [{"delta": {}}]}) is None
