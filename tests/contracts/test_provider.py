"""Contract of every provider, over both transports of the OpenAI provider."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from itertools import pairwise

import pytest

from agent.errors import (
    BadReply,
    ContextTooLong,
    KeyRefused,
    NotFound,
    ProviderError,
    RateLimited,
    Rejected,
    TimedOut,
    Unavailable,
)
from agent.events import Reply, TextDelta, ThinkingDelta, ThinkingEnd, ToolCallDelta
from agent.providers.base import ModelRequest, Provider, ToolSpec
from agent.providers.http.openai_sdk_transport import SdkTransport
from agent.providers.http.transport import AiohttpTransport, Deadlines, Endpoint, Transport
from agent.providers.openai.provider import OpenAICompatibleProvider
from agent.providers.scripted import EchoProvider, ScriptedProvider
from agent.types import Message, Thinking, ToolCall, Usage, assistant, user
from tests.fakes.model import ModelServer
from tests.fakes.model_script import (
    Break,
    Call,
    Dialect,
    ReplyScript,
    context_too_long,
    rate_limited,
    refusal,
)

KEY = "sk-very-secret-key"
EXEC = ToolSpec("exec", "Run a command.", {"type": "object", "properties": {}})
ASKED = ModelRequest("fake", "Be brief.", (user("hi"),), (EXEC,))
SHORT = Deadlines(connect_s=5, first_byte_s=0.2, idle_s=0.2, settle_s=0.2)

Open = Callable[..., OpenAICompatibleProvider]
TRANSPORTS: list[type[AiohttpTransport] | type[SdkTransport]] = [AiohttpTransport, SdkTransport]


@pytest.fixture(params=TRANSPORTS, ids=["aiohttp", "sdk"])
async def open_to(request: pytest.FixtureRequest) -> AsyncIterator[Open]:
    opened: list[OpenAICompatibleProvider] = []

    def open_provider(
        api_base: str, deadlines: Deadlines | None = None, key: str = KEY
    ) -> OpenAICompatibleProvider:
        endpoint = Endpoint("openai", api_base, key, "OPENAI_API_KEY")
        deadlines = deadlines or Deadlines()
        transport: Transport = request.param(endpoint, deadlines)
        opened.append(OpenAICompatibleProvider(endpoint, transport, deadlines=deadlines))
        return opened[-1]

    yield open_provider
    for provider in opened:
        await provider.aclose()


async def events_of(
    provider: OpenAICompatibleProvider, asked: ModelRequest = ASKED
) -> list[object]:
    return [event async for event in provider.stream(asked)]


async def reply_of(provider: OpenAICompatibleProvider, asked: ModelRequest = ASKED) -> Reply:
    reply = (await events_of(provider, asked))[-1]
    assert isinstance(reply, Reply)
    return reply


async def failure_of(
    provider: OpenAICompatibleProvider, asked: ModelRequest = ASKED
) -> ProviderError:
    seen: list[object] = []

    async def listen() -> None:
        async for event in provider.stream(asked):
            seen.append(event)

    with pytest.raises(ProviderError) as caught:
        await listen()
    assert not any(isinstance(event, Reply) for event in seen)
    assert KEY not in str(caught.value) + str(caught.value.hint)
    return caught.value


async def test_text_arrives_in_deltas_and_complete_at_the_end(
    open_to: Open, model_server: ModelServer
) -> None:
    # Text that arrives together is reported together, hence the pauses.
    model_server.script(ReplyScript("Good morning to you", chunk_delay_s=0.02))
    events = await events_of(open_to(model_server.base_url))
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 1
    assert "".join(deltas) == "Good morning to you"
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert reply.message.text == "Good morning to you"
    assert reply.finish_reason == "stop"
    assert [type(event) for event in events].count(Reply) == 1


async def test_tool_call_is_read_and_its_result_is_sent(
    open_to: Open, model_server: ModelServer
) -> None:
    provider = open_to(model_server.base_url)
    model_server.script(ReplyScript(tool_calls=(Call("exec", {"command": "ls"}, "c1"),)))
    reply = await reply_of(provider)
    assert [(c.id, c.name, c.arguments) for c in reply.message.tool_calls] == [
        ("c1", "exec", {"command": "ls"})
    ]
    result = Message("tool", assistant("file").content, tool_call_id="c1")
    await reply_of(provider, replace(ASKED, messages=(user("hi"), reply.message, result)))
    sent = model_server.requests[-1].body["messages"]
    assert sent[2]["tool_calls"][0]["id"] == "c1"
    assert sent[3] == {"role": "tool", "tool_call_id": "c1", "content": "file"}


async def test_several_calls_keep_their_order(open_to: Open, model_server: ModelServer) -> None:
    calls = (Call("exec", {"command": "a"}, "x"), Call("exec", {"command": "b"}, "y"))
    model_server.script(ReplyScript(text="both", tool_calls=calls))
    events = await events_of(open_to(model_server.base_url))
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert [(c.id, c.arguments) for c in reply.message.tool_calls] == [
        ("x", {"command": "a"}),
        ("y", {"command": "b"}),
    ]
    pieces = [e.partial_json for e in events if isinstance(e, ToolCallDelta) and e.id == "x"]
    assert "".join(pieces) == '{"command": "a"}'


async def test_thinking_is_separated_from_text(open_to: Open, model_server: ModelServer) -> None:
    model_server.script(ReplyScript(reasoning="hm, well", text="Yes"))
    events = await events_of(open_to(model_server.base_url))
    thoughts = [event for event in events if isinstance(event, ThinkingDelta)]
    assert thoughts[-1].chars == len("hm, well")
    assert ThinkingEnd("hm, well") in events
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert reply.message.content[0] == Thinking("hm, well")
    assert reply.message.text == "Yes"


@pytest.mark.parametrize(
    "provider", [EchoProvider(), ScriptedProvider(["Good day"] * 2)], ids=["echo", "scripted"]
)
async def test_offline_providers_stream_deltas_and_end_with_one_reply(provider: Provider) -> None:
    events = [event async for event in provider.stream(ASKED)]
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert [type(event) for event in events].count(Reply) == 1
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 1
    assert "".join(deltas) == reply.message.text
    again = [event async for event in provider.stream(ASKED)]
    assert again == events


DIALECTS = {
    "no done": Dialect(done=False),
    "usage last": Dialect(usage="last_chunk"),
    "no usage": Dialect(usage="none"),
    "repeated heads": Dialect(repeat_call_head=True),
    "no index": Dialect(no_call_index=True, repeat_call_head=True),
    "no index, bare": Dialect(no_call_index=True),
    "no id": Dialect(empty_call_id=True),
    "no id, no index": Dialect(empty_call_id=True, no_call_index=True),
    "no id, no index, repeated": Dialect(
        empty_call_id=True, no_call_index=True, repeat_call_head=True
    ),
    "objects": Dialect(arguments_as_object=True),
    "crlf": Dialect(crlf=True, comments=True),
    "tight": Dialect(tight_data=True),
    "split": Dialect(split_characters=True),
    "plain": Dialect(plain_json=True),
    "everything": Dialect(
        done=False, usage="last_chunk", repeat_call_head=True, crlf=True, comments=True
    ),
}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
async def test_every_dialect_gives_the_same_reply(
    open_to: Open, model_server: ModelServer, dialect: Dialect
) -> None:
    model_server.dialect = dialect
    calls = (Call("exec", {"command": "é ls"}, "a"), Call("read_file", {"path": "ü"}, "b"))
    model_server.script(ReplyScript(text="Grüße 👋🏽 你好", tool_calls=calls))
    reply = await reply_of(open_to(model_server.base_url))
    assert reply.message.text == "Grüße 👋🏽 你好"
    assert [(call.name, call.arguments) for call in reply.message.tool_calls] == [
        ("exec", {"command": "é ls"}),
        ("read_file", {"path": "ü"}),
    ]
    ids = [call.id for call in reply.message.tool_calls]
    assert ids == (["call_1", "call_2"] if dialect.empty_call_id else ["a", "b"])
    assert (reply.usage is None) == (dialect.usage == "none")


async def test_usage_counts_cached_tokens(open_to: Open, model_server: ModelServer) -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    model_server.script(ReplyScript(text="ok", usage=usage))
    assert (await reply_of(open_to(model_server.base_url))).usage == Usage(10, 3, 8)


@pytest.mark.parametrize("raw", ['{"command": "l', "[1]", "ls", '{"a": NaN}', "[" * 5000])
async def test_unreadable_arguments_are_stored_as_text_and_never_sent_raw(
    open_to: Open, model_server: ModelServer, raw: str
) -> None:
    provider = open_to(model_server.base_url)
    model_server.script(ReplyScript(tool_calls=(Call("exec", raw, "c"),)))
    reply = await reply_of(provider)
    assert reply.message.tool_calls == (ToolCall("c", "exec", None, raw),)
    result = Message("tool", assistant("bad").content, tool_call_id="c")
    await reply_of(provider, replace(ASKED, messages=(user("hi"), reply.message, result)))


async def test_missing_arguments_are_an_empty_object(
    open_to: Open, model_server: ModelServer
) -> None:
    model_server.script(ReplyScript(tool_calls=(Call("exec", "", "c"),)))
    reply = await reply_of(open_to(model_server.base_url))
    assert reply.message.tool_calls[0].arguments == {}


@pytest.mark.parametrize("kind", ["eof", "reset", "error"])
@pytest.mark.parametrize("after", [1, 3, 5])
async def test_truncated_stream_is_unavailable_and_never_a_reply(
    open_to: Open, model_server: ModelServer, kind: str, after: int
) -> None:
    call = Call("exec", {"command": "rm -r all"}, "c")
    script = ReplyScript(text="x", tool_calls=(call,), breaks=Break(kind, after))  # type: ignore[arg-type]
    model_server.script(script)
    assert isinstance(await failure_of(open_to(model_server.base_url)), Unavailable)


async def test_refused_connection_is_unavailable(open_to: Open, unused_tcp_port: int) -> None:
    error = await failure_of(open_to(f"http://127.0.0.1:{unused_tcp_port}/v1"))
    assert isinstance(error, Unavailable)
    assert "could not connect to" in str(error)


async def test_reset_before_the_headers_is_unavailable(
    open_to: Open, model_server: ModelServer
) -> None:
    model_server.script(ReplyScript(text="x", breaks=Break("refuse")))
    assert isinstance(await failure_of(open_to(model_server.base_url)), Unavailable)


async def test_line_that_is_not_json_is_a_bad_reply(
    open_to: Open, model_server: ModelServer
) -> None:
    model_server.script(ReplyScript(text="x", breaks=Break("garbage", 1)))
    assert isinstance(await failure_of(open_to(model_server.base_url)), BadReply)


@pytest.mark.parametrize("after", [0, 2])
async def test_silent_server_times_out(
    open_to: Open, model_server: ModelServer, after: int
) -> None:
    model_server.script(ReplyScript(text="one two three", breaks=Break("hang", after)))
    assert isinstance(await failure_of(open_to(model_server.base_url, SHORT)), TimedOut)


async def test_silence_after_a_complete_reply_is_accepted(
    open_to: Open, model_server: ModelServer
) -> None:
    model_server.script(ReplyScript(text="ab", pieces=1, breaks=Break("hang", 3)))
    # Shorten only the wait for the stream's end: a loaded machine may be slow before it.
    patient = Deadlines(settle_s=0.2)
    reply = await reply_of(open_to(model_server.base_url, patient))
    assert reply.message.text == "ab"


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (refusal(401, f"Incorrect API key {KEY}"), KeyRefused, "rejected the API key"),
        (refusal(403, "no"), KeyRefused, "does not allow"),
        (refusal(404, "no such model"), NotFound, "'fake'"),
        (refusal(400, "bad temperature"), Rejected, "bad temperature"),
        (refusal(429, "quota", code="insufficient_quota"), KeyRefused, "no credit"),
        (rate_limited(), RateLimited, "rate limit reached"),
        (context_too_long(), ContextTooLong, "window"),
        (refusal(413, "too big"), ContextTooLong, "window"),
        (refusal(408, "late"), TimedOut, "timed out"),
        (refusal(500, "oops"), Unavailable, "500"),
        (refusal(503, "overloaded"), Unavailable, "503"),
        (refusal(307, ""), Rejected, "redirects"),
    ],
)
async def test_each_rejection_has_its_own_error(
    open_to: Open,
    model_server: ModelServer,
    script: ReplyScript,
    kind: type[ProviderError],
    words: str,
) -> None:
    model_server.script(script)
    error = await failure_of(open_to(model_server.base_url))
    assert type(error) is kind
    assert words in str(error)


async def test_retry_after_is_parsed(open_to: Open, model_server: ModelServer) -> None:
    model_server.script(rate_limited("7"))
    error = await failure_of(open_to(model_server.base_url))
    assert isinstance(error, RateLimited)
    assert error.retry_after_s == 7


async def test_missing_key_is_named(open_to: Open, model_server: ModelServer) -> None:
    model_server.api_key = KEY
    error = await failure_of(open_to(model_server.base_url, key=""))
    assert isinstance(error, Rejected)
    assert error.hint == "Set OPENAI_API_KEY."


async def test_no_authorization_is_sent_without_a_key(
    open_to: Open, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-from-the-environment")
    await reply_of(open_to(model_server.base_url, key=""))
    headers = model_server.requests[0].headers
    assert "Authorization" not in headers
    assert "from-the-environment" not in str(headers)


async def test_each_request_extends_the_previous_one(
    open_to: Open, model_server: ModelServer
) -> None:
    provider = open_to(model_server.base_url)
    messages: list[Message] = []
    for n in range(4):
        messages.append(user(f"question {n}", f"[{n} o'clock]"))
        reply = await reply_of(provider, replace(ASKED, messages=tuple(messages)))
        messages.append(reply.message)
    bodies = [asked.raw for asked in model_server.requests]
    for before, after in pairwise(bodies):
        assert after.startswith(before.removesuffix(b"]}"))


async def test_leaving_the_stream_ends_the_request(
    open_to: Open, model_server: ModelServer
) -> None:
    provider = open_to(model_server.base_url)
    model_server.script(ReplyScript(text="one two three", breaks=Break("hang", 3)))
    async with aclosing(provider.stream(ASKED)) as stream:  # type: ignore[type-var]
        async for _ in stream:
            break
    await wait_until_abandoned(model_server)
    assert (await reply_of(provider)).message.text == "echo: hi"


async def test_cancelling_the_task_ends_the_request(
    open_to: Open, model_server: ModelServer
) -> None:
    provider = open_to(model_server.base_url)
    model_server.script(ReplyScript(text="one two three", breaks=Break("hang", 3)))
    arrived = asyncio.Event()

    async def listen() -> None:
        async for _ in provider.stream(ASKED):
            arrived.set()

    task = asyncio.create_task(listen())
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wait_until_abandoned(model_server)


async def wait_until_abandoned(server: ModelServer) -> None:
    async with asyncio.timeout(30):
        while not server.abandoned:
            await server.news(1)
