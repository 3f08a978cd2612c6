"""Servers that refuse an optional part of a request with an unknown error message."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import pytest

from agent.errors import (
    ContextTooLong,
    KeyRefused,
    NotFound,
    ProviderError,
    RateLimited,
    Rejected,
    Unavailable,
)
from agent.events import ModelEvent, Notice, Reply
from agent.providers.base import ModelRequest, ToolSpec
from agent.providers.capability_fallback import CapabilityFallback
from agent.providers.http.transport import Deadlines, Endpoint
from agent.providers.openai.provider import OpenAICompatibleProvider
from agent.providers.optional_parts import MAX_TRIALS
from agent.providers.retry import RetryingProvider
from agent.providers.vendors import VENDORS
from agent.types import Image, Message, Text, Thinking, user
from tests.contracts.formats import FORMATS
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Break, ReplyScript, refusal

PICTURE = Image("image/png", b"\x89PNG picture")
TOOL = ToolSpec("exec", "Run.", {"type": "object", "properties": {"command": {"type": "string"}}})
PICTURED = Message("user", (PICTURE, Text("what is it?")))
EXTRA = {"prompt_cache_key": "k1", "metadata": {"user": "u1"}, "service_tier": "auto"}
FULL = ModelRequest(
    "fake",
    "Be brief.",
    (PICTURED,),
    (TOOL,),
    temperature=0.5,
    options={"reasoning_effort": "high", "top_p": 0.9, "extra_body": EXTRA},
)

# Public reports of error messages from vendors and servers, most of them about an image. None of
# them describes the cause in words that `error_mapping` recognizes.
WORDINGS = (
    # xAI
    (400, "Client specified an invalid argument"),
    (422, "Failed to deserialize the JSON body into the target type"),
    # OpenAI and gateways that forward to it
    (400, "Invalid request."),
    (400, "bad response status code 400 (request id: 202504261359457844612247PuUB3j0)"),
    (415, "Unsupported Media Type"),
    (500, "Provider returned error"),
    # Qwen
    (
        400,
        "<400> InternalError.Algo.InvalidParameter: The provided URL does not appear to be valid.",
    ),
    (400, "请求参数不合法，请检查后重试"),
    # Zhipu
    (400, "API 调用参数有误，请检查文档。"),
    (400, "[1210][图片输入格式/解析错误][20260916231629b20bd515ccea4697]"),
    (400, "messages.content.type 参数非法，取值范围 ['text']"),
    # Servers that validate with Pydantic, and proxies
    (422, "[{'type': 'extra_forbidden', 'msg': 'Extra inputs are not permitted'}]"),
    (413, "Request Entity Too Large"),
    (400, ""),
)
NATIVE = ("openai", "openai by sdk", "responses", "anthropic", "ollama")


def _is_field(name: str) -> Callable[[bytes], bool]:
    return lambda raw: f'"{name}":'.encode() in raw


def _has_picture(raw: bytes) -> bool:
    return b"iVBOR" in raw or b"data:image" in raw or b"images" in raw or b'"image"' in raw


def _thinks(raw: bytes) -> bool:
    return any(
        _is_field(name)(raw) for name in ("thinking", "think", "reasoning_effort", "reasoning")
    )


# Each part, a check for it in a body, and the formats whose requests contain it.
PARTS: dict[str, tuple[Callable[[bytes], bool], tuple[str, ...]]] = {
    "pictures": (_has_picture, NATIVE),
    "tools": (_is_field("tools"), NATIVE),
    "thinking": (_thinks, ("responses", "anthropic", "ollama", "gemini")),
    "temperature": (_is_field("temperature"), ("openai", "responses", "ollama", "gemini")),
    "top_p": (_is_field("top_p"), NATIVE),
    "stream_options": (_is_field("stream_options"), ("openai", "openai by sdk", "gemini")),
    "include": (_is_field("include"), ("responses",)),
    "cache_control": (_is_field("cache_control"), ("anthropic",)),
    "prompt_cache_key": (_is_field("prompt_cache_key"), NATIVE),
    "metadata": (_is_field("metadata"), NATIVE),
}
ROWS = [(part, format_) for part, (_, formats) in PARTS.items() for format_ in formats]


@dataclass
class Refusing:
    """A server that refuses a part, with the provider that calls it."""

    server: ModelServer
    provider: CapabilityFallback

    def refuse(self, holds: Callable[[bytes], bool], status: int, words: str) -> None:
        self.server.objects = lambda raw: refusal(status, words) if holds(raw) else None

    async def ask(self, request: ModelRequest = FULL) -> tuple[Reply, list[Notice]]:
        # Like the pool, repeat the request after a server error.
        asking = RetryingProvider(self.provider, sleep=_at_once)
        events = [event async for event in asking.stream(request)]
        assert isinstance(events[-1], Reply)
        return events[-1], [event for event in events if isinstance(event, Notice)]

    @property
    def bodies(self) -> list[bytes]:
        return [request.raw for request in self.server.requests]


TOO_LARGE = (
    # vLLM, and OpenAI's older models
    "'max_tokens' or 'max_completion_tokens' is too large: 100000. This model's maximum context "
    "length is 32768 tokens and your request has 20 input tokens (100000 > 32768 - 20).",
    "This model's maximum context length is 4097 tokens. However, you requested 100020 tokens (20 "
    "in the messages, 100000 in the completion). Please reduce the length of the messages.",
)


async def _at_once(seconds: float) -> None:
    """Return without a delay."""


def _open(server: ModelServer, name: str) -> CapabilityFallback:
    if name == "gemini":
        endpoint = Endpoint("gemini", server.base_url, "k")
        dialect = VENDORS["gemini"].dialect
        return CapabilityFallback(OpenAICompatibleProvider(endpoint, dialect=dialect))
    return CapabilityFallback(FORMATS[name].open(server.url, Deadlines(), "k"))


@pytest.fixture
async def opened(request: pytest.FixtureRequest) -> AsyncIterator[Refusing]:
    """Yield a server and a provider for the format in the parameter."""
    async with ModelServer(strict=False) as server:
        provider = _open(server, request.param)
        yield Refusing(server, provider)
        await provider.aclose()


@pytest.mark.parametrize(("part", "opened"), ROWS, indirect=["opened"])
@pytest.mark.parametrize(("status", "words"), [WORDINGS[0], WORDINGS[7], WORDINGS[5]])
async def test_rejected_part_is_left_out_and_named(
    opened: Refusing, part: str, status: int, words: str
) -> None:
    holds, _ = PARTS[part]
    opened.refuse(holds, status, words)
    reply, notices = await opened.ask()
    assert reply.message.text
    assert len(notices) == 1
    assert part.removesuffix("s") in notices[0].text.lower()
    # The refused request, a repetition after a server error, and the trials.
    assert len(opened.bodies) <= 1 + (status == 500) + MAX_TRIALS
    count = len(opened.bodies)
    _, notices = await opened.ask()
    assert notices == []
    assert len(opened.bodies) == count + 1


@pytest.mark.parametrize("opened", NATIVE, indirect=True)
@pytest.mark.parametrize(("status", "words"), WORDINGS)
async def test_rejected_picture_does_not_block_the_conversation(
    opened: Refusing, status: int, words: str
) -> None:
    opened.refuse(_has_picture, status, words)
    reply, notices = await opened.ask()
    assert "picture" in notices[0].text
    # Only the refused part was left out, and one further request was enough.
    assert len(opened.bodies) == 2 + (status == 500)
    assert _is_field("tools")(opened.bodies[-1])
    later = replace(FULL, messages=(PICTURED, reply.message, user("and now?")))
    _, notices = await opened.ask(later)
    assert notices == []
    assert len(opened.bodies) == 3 + (status == 500)


@pytest.mark.parametrize("opened", ["openai"], indirect=True)
async def test_only_the_rejected_picture_is_left_out(opened: Refusing) -> None:
    reply, _ = await opened.ask()
    bad = Message("user", (Image("image/png", b"broken"), Text("and that?")))
    opened.refuse(lambda raw: b"YnJva2Vu" in raw, 400, "Invalid request.")
    for _ in range(2):
        await opened.ask(replace(FULL, messages=(PICTURED, reply.message, bad)))
    assert b"data:image" in opened.bodies[-1]
    assert b"YnJva2Vu" not in opened.bodies[-1]
    # Send another image.
    other = Message("user", (Image("image/png", b"another"), Text("this?")))
    await opened.ask(replace(FULL, messages=(other,)))
    assert b"YW5vdGhlc" in opened.bodies[-1]


@pytest.mark.parametrize("opened", ["openai"], indirect=True)
async def test_no_picture_is_sent_after_two_rejections(opened: Refusing) -> None:
    opened.refuse(_has_picture, 400, "Invalid request.")
    for n in range(2):
        picture = Message("user", (Image("image/png", b"picture %d" % n), Text("?")))
        await opened.ask(replace(FULL, messages=(picture,)))
    count = len(opened.bodies)
    _, (notice,) = await opened.ask()
    assert len(opened.bodies) == count + 1
    assert notice.text == "fake cannot see pictures"


@pytest.mark.parametrize("opened", ["openai", "anthropic"], indirect=True)
async def test_parameter_named_in_the_error_is_dropped_first(opened: Refusing) -> None:
    opened.refuse(_is_field("metadata"), 400, "Argument not supported: metadata")
    _, notices = await opened.ask()
    assert len(opened.bodies) == 2
    assert "metadata" in notices[0].text
    assert "prompt_cache_key" not in notices[0].text


@pytest.mark.parametrize("opened", ["openai"], indirect=True)
async def test_several_rejected_parts_are_found(opened: Refusing) -> None:
    def objects(raw: bytes) -> ReplyScript | None:
        if _has_picture(raw):
            return refusal(400, "Invalid request.")
        return refusal(422, "参数错误") if _is_field("tools")(raw) else None

    opened.server.objects = objects
    _, notices = await opened.ask()
    assert len(notices) == 1
    assert "picture" in notices[0].text
    assert "tools" in notices[0].text
    assert _is_field("temperature")(opened.bodies[-1])


@pytest.mark.parametrize("opened", ["openai"], indirect=True)
async def test_search_without_a_removable_cause_is_limited(opened: Refusing) -> None:
    opened.refuse(lambda raw: True, 400, "Invalid request.")
    with pytest.raises(Rejected, match="Invalid request"):
        await opened.ask()
    assert len(opened.bodies) <= 1 + MAX_TRIALS
    count = len(opened.bodies)
    # Only the image, which may be different, is tried again.
    with pytest.raises(Rejected):
        await opened.ask()
    assert len(opened.bodies) == count + 2


@pytest.mark.parametrize("opened", ["openai", "responses", "anthropic", "ollama"], indirect=True)
@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, KeyRefused), (403, KeyRefused), (404, NotFound), (429, RateLimited)],
)
async def test_other_causes_are_not_searched(
    opened: Refusing, status: int, kind: type[ProviderError]
) -> None:
    opened.refuse(lambda raw: True, status, "no")
    with pytest.raises(kind):
        async for _ in opened.provider.stream(FULL):
            pass
    assert len(opened.bodies) == 1


@pytest.mark.parametrize("opened", ["openai"], indirect=True)
async def test_outage_leaves_nothing_out(opened: Refusing) -> None:
    opened.refuse(lambda raw: True, 500, "Internal error")
    with pytest.raises(Unavailable):
        await opened.ask()
    opened.server.objects = lambda raw: None
    _, notices = await opened.ask()
    assert notices == []
    assert _has_picture(opened.bodies[-1])
    assert _is_field("tools")(opened.bodies[-1])


@pytest.mark.parametrize("opened", ["openai", "anthropic"], indirect=True)
async def test_too_large_body_without_pictures_is_too_long(opened: Refusing) -> None:
    opened.refuse(lambda raw: True, 413, "Request Entity Too Large")
    with pytest.raises(ContextTooLong):
        await opened.ask()
    assert len(opened.bodies) == 2
    with pytest.raises(ContextTooLong):
        await opened.ask(replace(FULL, messages=(user("hi"),)))
    assert len(opened.bodies) == 3


@pytest.mark.parametrize("opened", ["openai"], indirect=True)
async def test_full_window_is_not_attributed_to_pictures(opened: Refusing) -> None:
    opened.refuse(lambda raw: True, 400, "This model's maximum context length is 9 tokens.")
    with pytest.raises(ContextTooLong):
        await opened.ask()
    assert len(opened.bodies) == 1


@pytest.mark.parametrize("opened", ["openai"], indirect=True)
async def test_request_is_not_repeated_after_output_has_begun(opened: Refusing) -> None:
    opened.server.script(ReplyScript(text="one two three", breaks=Break("error", 2)))
    events: list[ModelEvent] = []

    async def listen() -> None:
        async for event in opened.provider.stream(FULL):
            events.append(event)

    with pytest.raises(ProviderError):
        await listen()
    assert events
    assert len(opened.bodies) == 1


@pytest.mark.parametrize("opened", ["anthropic"], indirect=True)
async def test_rejected_thinking_is_left_out(opened: Refusing) -> None:
    thought = Message("assistant", (Thinking("hm", "EqQBCg"), Text("yes")))
    request = replace(FULL, messages=(user("hi"), thought, user("and?")))
    opened.refuse(lambda raw: b"EqQBCg" in raw, 400, "请求无效")
    _, notices = await opened.ask(request)
    assert "earlier thoughts" in notices[0].text
    await opened.ask(request)
    assert json.loads(opened.bodies[-1])["messages"][1]["content"] == [
        {"type": "text", "text": "yes"}
    ]


async def test_part_left_out_after_a_server_error_is_tried_again() -> None:
    now = 0.0
    async with ModelServer(strict=False) as server:
        provider = CapabilityFallback(
            OpenAICompatibleProvider(Endpoint("openai", server.base_url, "k")), clock=lambda: now
        )
        opened = Refusing(server, provider)
        opened.refuse(_is_field("stream_options"), 500, "oops")
        await opened.ask()
        assert not _is_field("stream_options")(opened.bodies[-1])
        opened.server.objects = lambda raw: None
        now = 3601.0
        await opened.ask()
        assert _is_field("stream_options")(opened.bodies[-1])
        await provider.aclose()


@pytest.mark.parametrize("words", TOO_LARGE)
@pytest.mark.parametrize("opened", ["openai", "ollama"], indirect=True)
async def test_rejected_limit_is_not_a_long_conversation(opened: Refusing, words: str) -> None:
    opened.refuse(lambda raw: b"100000" in raw, 400, words)
    request = replace(FULL, messages=(user("hi"),), max_tokens=100_000)
    _, (notice,) = await opened.ask(request)
    assert "max_tokens is left out" in notice.text
    _, later = await opened.ask(request)
    assert not later
    assert [b"100000" in raw for raw in opened.bodies] == [True, False, False]


@pytest.mark.parametrize("opened", ["openai"], indirect=True)
async def test_too_long_conversation_keeps_its_limit(opened: Refusing) -> None:
    opened.refuse(lambda raw: True, 400, TOO_LARGE[0])
    request = replace(FULL, messages=(user("hi"),), max_tokens=100_000)
    for _ in range(2):
        with pytest.raises(ContextTooLong):
            await opened.ask(request)
    assert [b"100000" in raw for raw in opened.bodies] == [True, False, True, False]
    # With more tokens in the conversation than in a reply, the limit is not the cause.
    with pytest.raises(ContextTooLong):
        await opened.ask(replace(request, messages=(user("word " * 100),), max_tokens=50))
    assert len(opened.bodies) == 5


@pytest.mark.parametrize("opened", ["openai"], indirect=True)
async def test_limit_of_another_name_is_renamed_and_kept(opened: Refusing) -> None:
    request = ModelRequest("fake", "", (user("hi"),), max_tokens=99)
    opened.refuse(_is_field("max_tokens"), 422, "参数不受支持")
    for _ in range(2):
        _, notices = await opened.ask(request)
        assert notices == []
    assert json.loads(opened.bodies[-1])["max_completion_tokens"] == 99


@pytest.mark.parametrize("opened", ["openai"], indirect=True)
async def test_thinking_required_by_the_server_is_replayed(opened: Refusing) -> None:
    thought = Message("assistant", (Thinking("hm"), Text("yes")))
    request = ModelRequest("fake", "", (user("hi"), thought, user("and?")))
    opened.refuse(lambda raw: b"reasoning_content" not in raw, 400, "缺少必要的字段")
    for _ in range(2):
        _, notices = await opened.ask(request)
        assert notices == []
    assert b'"reasoning_content":"hm"' in opened.bodies[-1]
