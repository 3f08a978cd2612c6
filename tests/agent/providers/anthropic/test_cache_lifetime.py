"""Choice between five minutes and an hour, and the marks that ask for it."""

import time

import pytest

from agent.providers.anthropic.cache_lifetime import CacheLifetimes
from agent.providers.anthropic.provider import AnthropicProvider, anthropic_endpoint
from agent.providers.anthropic.request import OLD_VERSION, VERSION, AnthropicRequestEncoder
from agent.providers.base import ModelRequest
from agent.types import user
from tests.fakes.model import ModelServer
from tests.fakes.model_script import ReplyScript

MINUTE_S = 60.0
REQUEST = ModelRequest("claude-opus-5", "sys", [user("hi")], cache_key="one")


def rhythm(*gaps_s: float, grows_by: int = 200) -> CacheLifetimes:
    """Return the record of a conversation whose last request was sent at time 0."""
    lifetimes, at, tokens = CacheLifetimes(), -sum(gaps_s), 10_000
    lifetimes.note("one", tokens, at)
    for gap_s in gaps_s:
        at, tokens = at + gap_s, tokens + grows_by
        lifetimes.note("one", tokens, at)
    return lifetimes


@pytest.mark.parametrize(
    ("gaps_s", "next_gap_s", "is_hour"),
    [
        ((), MINUTE_S, False),
        ((), 10 * MINUTE_S, True),
        ((), 90 * MINUTE_S, False),
        ((MINUTE_S,) * 50, MINUTE_S, False),
        ((20 * MINUTE_S,) * 3, 20 * MINUTE_S, True),
        ((20 * MINUTE_S, MINUTE_S, MINUTE_S), MINUTE_S, True),
        ((20 * MINUTE_S, *[MINUTE_S] * 80), MINUTE_S, False),
        ((90 * MINUTE_S,) * 3, 90 * MINUTE_S, False),
        ((20 * MINUTE_S, 90 * MINUTE_S, 90 * MINUTE_S), MINUTE_S, False),
    ],
)
def test_hour_is_cheaper_after_breaks_that_it_outlasts(
    gaps_s: tuple[float, ...], next_gap_s: float, is_hour: bool
) -> None:
    assert rhythm(*gaps_s).is_hour_cheaper("one", next_gap_s) == is_hour


def test_much_new_input_outweighs_a_short_break() -> None:
    gaps_s = [10 * MINUTE_S, *[MINUTE_S] * 5]
    assert rhythm(*gaps_s, grows_by=200).is_hour_cheaper("one", MINUTE_S)
    assert not rhythm(*gaps_s, grows_by=4_000).is_hour_cheaper("one", MINUTE_S)


def test_conversations_have_their_own_lifetimes() -> None:
    lifetimes = rhythm(20 * MINUTE_S)
    assert not lifetimes.is_hour_cheaper("two", 20 * MINUTE_S)
    assert not lifetimes.is_hour_cheaper(None, 20 * MINUTE_S)


def test_only_anthropic_is_asked_for_an_hour_of_caching() -> None:
    for version, is_hour in ((VERSION, True), (OLD_VERSION, False)):
        encoder = AnthropicRequestEncoder(version)
        assert b'"ttl"' not in encoder.body(REQUEST)
        encoder.lifetimes.note("one", 10_000, time.time() - 10 * MINUTE_S)
        marks = encoder.body(REQUEST).count(b'{"type":"ephemeral","ttl":"1h"}')
        assert marks == (2 if is_hour else 0)
        assert ("ttl" in encoder.optional_fields(REQUEST)) == is_hour


def test_refused_lifetime_keeps_the_cache() -> None:
    encoder = AnthropicRequestEncoder(VERSION)
    encoder.lifetimes.note("one", 10_000, time.time() - 10 * MINUTE_S)
    refused = ModelRequest(
        REQUEST.model, "sys", REQUEST.messages, cache_key="one", adaptations=frozenset({"ttl"})
    )
    assert encoder.body(refused).count(b'"cache_control":{"type":"ephemeral"}') == 2
    assert "ttl" not in encoder.optional_fields(refused)


async def test_provider_learns_the_rhythm_from_its_replies(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"anthropic-version": VERSION}
    provider = AnthropicProvider(
        anthropic_endpoint("anthropic", model_server.base_url, "k", None, own)
    )
    usage = {"prompt_tokens": 10_000, "completion_tokens": 5}
    now = time.time()
    for _ in range(2):
        model_server.script(ReplyScript(text="ok", usage=usage))
        assert [event async for event in provider.stream(REQUEST)]
        monkeypatch.setattr(time, "time", lambda: now + 10 * MINUTE_S)
    await provider.aclose()
    marks = [request.body["system"][0]["cache_control"] for request in model_server.requests]
    assert marks == [{"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}]
