"""One table of cases for every format: the same model in each API format."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from agent.errors import (
    BadReply,
    ContextTooLong,
    KeyRefused,
    NoImages,
    NotFound,
    NoThinking,
    NoTools,
    ProviderError,
    RateLimited,
    Rejected,
    TimedOut,
    Unavailable,
)
from agent.events import Reply, TextDelta, ThinkingDelta, ThinkingEnd, ToolCallDelta
from agent.providers.base import ClosingProvider, ModelRequest, ToolSpec
from agent.providers.http.transport import Deadlines
from agent.types import Image, Message, Text, ToolCall, Usage, assistant, user
from tests.contracts.formats import FORMATS, KEY, Format
from tests.fakes.model import ModelServer
from tests.fakes.model_script import (
    Break,
    Call,
    ReplyScript,
    context_too_long,
    rate_limited,
    refusal,
)

STRING = {"type": "string"}
TOOLS = (
    ToolSpec(
        "exec",
        "Run a command.",
        {"type": "object", "properties": {"command": STRING}, "required": ["command"]},
    ),
    ToolSpec("note", "Keep a note.", {"type": "object", "properties": {"text": STRING}}),
)
ASKED = ModelRequest("fake", "Be brief.", (user("hi"),), TOOLS)
SHORT = Deadlines(connect_s=5, first_byte_s=0.2, idle_s=0.2, settle_s=0.2)
AWKWARD = [
    "Zürich",
    "say \"hi\" and 'bye'",
    "C:\\new\\table\\",
    "\\u00e9 \\n as words",
    "👋🏽 👩‍👩‍👧 🇨🇭",
    "你好，世界 こんにちは 안녕",
    "line\nline\r\n\ttab",
    "</tool> <tool name='exec'>no</tool>",
    '{"a": "}"}',
    " leading and trailing ",
    "\u2028\u00a0\u200d",
    "-1e5 null true",
]


@dataclass(slots=True)
class Bench:
    """A format with its server."""

    format: Format
    server: ModelServer
    opened: list[ClosingProvider] = field(default_factory=list)

    def open(
        self, deadlines: Deadlines | None = None, key: str = KEY, root: str = ""
    ) -> ClosingProvider:
        provider = self.format.open(root or self.server.url, deadlines or Deadlines(), key)
        self.opened.append(provider)
        return provider

    def script(self, *replies: ReplyScript) -> None:
        self.server.script(*map(self.format.word, replies))

    async def events(self, asked: ModelRequest = ASKED, **how: Any) -> list[object]:
        return [event async for event in self.open(**how).stream(asked)]

    async def reply(self, asked: ModelRequest = ASKED, **how: Any) -> Reply:
        reply = (await self.events(asked, **how))[-1]
        assert isinstance(reply, Reply)
        return reply

    async def failure(self, **how: Any) -> ProviderError:
        seen: list[object] = []
        provider = self.open(**how)

        async def listen() -> None:
            async for event in provider.stream(ASKED):
                seen.append(event)

        with pytest.raises(ProviderError) as caught:
            await listen()
        assert not any(isinstance(event, Reply) for event in seen)
        assert KEY not in str(caught.value) + str(caught.value.hint)
        return caught.value


@pytest.fixture(params=FORMATS.values(), ids=FORMATS)
async def bench(request: pytest.FixtureRequest, model_server: ModelServer) -> AsyncIterator[Bench]:
    bench = Bench(request.param, model_server)
    yield bench
    for provider in bench.opened:
        await provider.aclose()


async def test_text_arrives_in_deltas_and_complete_at_the_end(bench: Bench) -> None:
    bench.script(ReplyScript(text="Good morning to you, Zürich 👋🏽", pieces=4, chunk_delay_s=0.05))
    events = await bench.events()
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert len(deltas) > 1
    assert "".join(deltas) == "Good morning to you, Zürich 👋🏽"
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert reply.message == assistant("Good morning to you, Zürich 👋🏽")
    assert reply.finish_reason == "stop"
    assert [type(event) for event in events].count(Reply) == 1


@pytest.mark.parametrize("pieces", [1, 3, 1000])
async def test_parallel_calls_arrive_with_identical_arguments(bench: Bench, pieces: int) -> None:
    calls = tuple(Call("exec", {"command": text}, f"c{n}") for n, text in enumerate(AWKWARD))
    calls += (Call("note", {"text": "x", "tags": ["ä", {"deep": [1, 2.5, None, True]}]}, "last"),)
    bench.script(ReplyScript(text="All at once.", tool_calls=calls, pieces=pieces))
    events = await bench.events()
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert [(c.name, c.arguments) for c in reply.message.tool_calls] == [
        (call.name, call.arguments) for call in calls
    ]
    assert reply.message.text.strip() == "All at once."
    assert reply.finish_reason == "tool_calls"
    ids = [call.id for call in reply.message.tool_calls]
    assert len(set(ids)) == len(calls)
    if bench.format.retells_ids:
        assert ids == [call.id for call in calls]
    texts = {event.id for event in events if isinstance(event, ToolCallDelta)}
    assert texts == set(ids)
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert shown == reply.message.text


async def test_replayed_calls_and_results_are_accepted(
    bench: Bench,
) -> None:
    calls = tuple(Call("exec", {"command": text}, f"c{n}") for n, text in enumerate(AWKWARD[:3]))
    bench.script(ReplyScript(reasoning="hm", tool_calls=calls), ReplyScript(text="Done."))
    first = await bench.reply()
    results = [
        Message("tool", (Text(f"found {n} ünïcode"),), (), call.id, n == 1)
        for n, call in enumerate(first.message.tool_calls)
    ]
    history = (user("hi", "[noon]"), first.message, *results)
    second = await bench.reply(replace(ASKED, messages=history))
    assert second.message.text == "Done."
    third = await bench.reply(replace(ASKED, messages=(*history, second.message, user("bye"))))
    assert third.message.text == "echo: bye"
    sent = bench.server.requests[1].raw.decode()
    for n in range(3):
        assert f"found {n} ünïcode" in sent


async def test_history_of_other_models_is_accepted(bench: Bench) -> None:
    """A history outlives the model that created it, and must be valid for the next model."""
    odd = (ToolCall("functions.exec:0", "a name", {}, "{}"), ToolCall("ü", "exec", None, '{"x'))
    messages = (
        user("hi"),
        user("are you there?"),
        assistant("", odd),
        Message("tool", (Text(""),), (), "functions.exec:0"),
        Message("tool", (Text("bad"),), (), "ü", is_error=True),
        assistant("half an ans"),
        assistant(" \n"),
        user("again"),
    )
    reply = await bench.reply(replace(ASKED, messages=messages))
    assert reply.message.text.startswith("echo: ")
    assert "again" in reply.message.text


async def test_thinking_is_separated_from_text(bench: Bench) -> None:
    bench.script(ReplyScript(reasoning="hm, well", text="Yes"))
    events = await bench.events(replace(ASKED, options={"reasoning_effort": "high"}))
    thoughts = [event for event in events if isinstance(event, ThinkingDelta)]
    assert "".join(event.text for event in thoughts) == "hm, well"
    assert thoughts[-1].chars == len("hm, well")
    assert events.count(ThinkingEnd("hm, well")) == 1
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert reply.message.text == "Yes"
    assert reply.message.content[0].text == "hm, well"  # type: ignore[union-attr]


async def test_tokens_are_counted(bench: Bench) -> None:
    details = {"cached_tokens": 8}
    usage = {"prompt_tokens": 20, "completion_tokens": 3, "prompt_tokens_details": details}
    bench.script(ReplyScript(text="ok", usage=usage))
    counted = (await bench.reply()).usage
    assert counted in (Usage(20, 3, 8), Usage(20, 3))


async def test_picture_is_sent(bench: Bench) -> None:
    picture = Message("user", (Image("image/png", b"\x89PNG\r\n"), Text("what is it?")))
    reply = await bench.reply(replace(ASKED, messages=(picture,)))
    assert reply.message.text == "echo: what is it?"
    assert b"iVBORw0K" in bench.server.requests[0].raw


@pytest.mark.parametrize("kind", ["eof", "reset", "error"])
@pytest.mark.parametrize("after", [1, 2])
async def test_truncated_stream_is_unavailable_and_never_a_reply(
    bench: Bench, kind: str, after: int
) -> None:
    call = Call("exec", {"command": "rm -r all"}, "c")
    breaks = Break(kind, after)  # type: ignore[arg-type]
    bench.script(ReplyScript(text="one two three", tool_calls=(call,), breaks=breaks))
    assert isinstance(await bench.failure(), Unavailable)


async def test_truncated_reply_runs_no_partial_call(bench: Bench) -> None:
    half = Call("exec", '{"command": "rm -r /tmp/a', "c")
    bench.script(ReplyScript(text="x", tool_calls=(half,), finish_reason="length"))
    reply = await bench.reply()
    assert reply.finish_reason == "length"
    assert [call.arguments for call in reply.message.tool_calls] == [None]


async def test_unreachable_server_is_unavailable(bench: Bench, unused_tcp_port: int) -> None:
    error = await bench.failure(root=f"http://127.0.0.1:{unused_tcp_port}")
    assert isinstance(error, Unavailable)
    assert "could not connect to" in str(error)


async def test_invalid_json_is_a_bad_reply(bench: Bench) -> None:
    bench.script(ReplyScript(text="x", breaks=Break("garbage", 1)))
    assert isinstance(await bench.failure(), BadReply)


@pytest.mark.parametrize("after", [0, 2])
async def test_silent_server_times_out(bench: Bench, after: int) -> None:
    bench.script(ReplyScript(text="one two three", breaks=Break("hang", after)))
    assert isinstance(await bench.failure(deadlines=SHORT), TimedOut)


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (refusal(401, f"Incorrect API key {KEY}"), KeyRefused, "rejected the API key"),
        (refusal(403, "no"), KeyRefused, "does not allow"),
        (refusal(404, "no such model"), NotFound, "'fake'"),
        (refusal(400, "bad temperature"), Rejected, "bad temperature"),
        (refusal(400, "fake does not support tools"), NoTools, "tools"),
        (refusal(400, '"fake" does not support thinking'), NoThinking, "thinking"),
        (refusal(400, "this model does not support image input"), NoImages, "image"),
        (rate_limited("7"), RateLimited, "rate limit reached"),
        (context_too_long(), ContextTooLong, "window"),
        (refusal(400, "prompt is too long: 9 tokens > 8 maximum"), ContextTooLong, "window"),
        (refusal(413, "request_too_large"), ContextTooLong, "window"),
        (refusal(500, "oops"), Unavailable, "500"),
        (refusal(529, "Overloaded"), Unavailable, "529"),
        (refusal(307, ""), Rejected, "redirects"),
    ],
)
async def test_each_rejection_has_its_own_error(
    bench: Bench, script: ReplyScript, kind: type[ProviderError], words: str
) -> None:
    bench.server.script(script)
    error = await bench.failure()
    assert type(error) is kind
    assert words in str(error)
    if isinstance(error, RateLimited):
        assert error.retry_after_s == 7


async def test_missing_key_is_named(bench: Bench) -> None:
    bench.server.api_key = KEY
    error = await bench.failure(key="")
    assert error.hint == f"Set {bench.format.key_variable}."
    assert (await bench.reply()).message.text == "echo: hi"


async def test_leaving_the_stream_ends_the_request(bench: Bench) -> None:
    bench.script(ReplyScript(text="one two three", pieces=8, breaks=Break("hang", 6)))
    provider = bench.open()
    async with aclosing(cast(Any, provider.stream(ASKED))) as stream:
        async for _ in stream:
            break
    await _is_free_again(bench, provider)


async def test_cancelling_the_task_ends_the_request(bench: Bench) -> None:
    bench.script(ReplyScript(text="one two three", pieces=8, breaks=Break("hang", 6)))
    provider = bench.open()
    arrived = asyncio.Event()

    async def listen() -> None:
        async for _ in provider.stream(ASKED):
            arrived.set()

    task = asyncio.create_task(listen())
    await arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _is_free_again(bench, provider)


async def _is_free_again(bench: Bench, provider: ClosingProvider) -> None:
    await bench.server.wait_for(lambda: bench.server.abandoned)
    events = [event async for event in provider.stream(ASKED)]
    assert isinstance(events[-1], Reply)
    assert events[-1].message.text == "echo: hi"
