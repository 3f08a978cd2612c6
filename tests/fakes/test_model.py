import asyncio
import json
import signal
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent.context.system_prompt import volatile_facts
from tests.fakes.model import ModelServer
from tests.fakes.model_mind import worker
from tests.fakes.model_script import (
    Break,
    Call,
    Dialect,
    ReplyScript,
    context_too_long,
    rate_limited,
)
from tests.fakes.model_wire import split_characters

HI = [{"role": "user", "content": "hi"}]


async def post(server: ModelServer, **body: Any) -> tuple[int, bytes, dict[str, str]]:
    request = {"model": "fake", "messages": HI, **body}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.base_url}/chat/completions", json=request) as response,
    ):
        return response.status, await response.read(), dict(response.headers)


def events(raw: bytes) -> list[Any]:
    """Return the JSON of each event, with "[DONE]" as text."""
    lines = [line for line in raw.decode().splitlines() if line.startswith("data:")]
    data = [line.removeprefix("data:").strip() for line in lines]
    return [item if item == "[DONE]" else json.loads(item) for item in data]


async def test_openai_client_reads_text_calls_and_usage(model_server: ModelServer) -> None:
    # The import takes a second: do it only where this test runs, not at collection.
    from openai import AsyncOpenAI

    model_server.script(
        ReplyScript(text="Grüße 😀", tool_calls=(Call("exec", {"command": "ls"}),)), "second"
    )
    async with AsyncOpenAI(api_key="k", base_url=model_server.base_url) as client:
        stream = await client.chat.completions.create(
            model="fake",
            messages=[{"role": "user", "content": "hi"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
        second = await client.chat.completions.create(
            model="fake", messages=[{"role": "user", "content": "hi"}]
        )
        models = await client.models.list()
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "Grüße 😀"
    calls = [delta.tool_calls[0] for delta in deltas if delta.tool_calls]
    assert [call.id for call in calls if call.id] == ["call_1_0"]
    arguments = "".join((call.function and call.function.arguments) or "" for call in calls)
    assert json.loads(arguments) == {"command": "ls"}
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens == len(model_server.requests[0].raw) // 4
    assert second.choices[0].message.content == "second"
    assert [model.id for model in models.data] == ["fake"]


async def test_default_reply_echoes_the_last_user_message(model_server: ModelServer) -> None:
    _, raw, _ = await post(model_server)
    assert json.loads(raw)["choices"][0]["message"]["content"] == "echo: hi"


async def test_echo_omits_volatile_facts(model_server: ModelServer) -> None:
    text = "hi\n\n[see] you"
    content = f"{text}\n\n{volatile_facts(datetime.now(), 'telegram', 'Person 7')}"
    _, raw, _ = await post(model_server, messages=[{"role": "user", "content": content}])
    assert json.loads(raw)["choices"][0]["message"]["content"] == f"echo: {text}"


async def test_requests_are_recorded_byte_for_byte(model_server: ModelServer) -> None:
    raw = b'{"model":  "fake", "messages": [{"role":"user","content":"\xc3\xa4"}]}'
    async with aiohttp.ClientSession() as session:
        await session.post(f"{model_server.base_url}/chat/completions", data=raw)
    assert model_server.requests[0].raw == raw


async def test_split_characters_arrive_in_separate_chunks(model_server: ModelServer) -> None:
    model_server.dialect = Dialect(split_characters=True)
    model_server.script(ReplyScript(text="Ж😀中", pieces=1))
    request = {"model": "fake", "messages": HI, "stream": True}
    received = []
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{model_server.base_url}/chat/completions", json=request) as response,
    ):
        async for chunk, _ in response.content.iter_chunks():
            received.append(chunk)
    assert any(_is_cut(chunk) for chunk in received)
    assert events(b"".join(received))[1]["choices"][0]["delta"]["content"] == "Ж😀中"


def _is_cut(chunk: bytes) -> bool:
    try:
        chunk.decode()
    except UnicodeDecodeError:
        return True
    return False


def test_split_characters_loses_no_byte() -> None:
    raw = "aЖ😀b".encode()
    assert b"".join(split_characters(raw)) == raw
    assert len(split_characters(raw)) == 3


async def test_dialects_change_the_wire(model_server: ModelServer) -> None:
    script = ReplyScript(text="x", tool_calls=(Call("f", {"a": 1}),), pieces=2)
    ask: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}

    async def wire(dialect: Dialect) -> bytes:
        model_server.dialect = dialect
        model_server.script(script)
        return (await post(model_server, **ask))[1]

    assert events(await wire(Dialect(done=False)))[-1] != "[DONE]"
    assert b"\r\n\r\ndata: " in await wire(Dialect(crlf=True))
    assert b": keep-alive\n\n" in await wire(Dialect(comments=True))
    assert b"data:{" in await wire(Dialect(tight_data=True))
    assert events(await wire(Dialect(usage="own_chunk")))[-2]["choices"] == []
    assert events(await wire(Dialect(usage="last_chunk")))[-2]["usage"]["completion_tokens"]
    assert b"usage" not in await wire(Dialect(usage="none"))
    repeated = _call_deltas(await wire(Dialect(repeat_call_head=True)))
    assert {delta["id"] for delta in repeated} == {"call_1_0"}
    assert len(repeated) == 3
    (whole,) = _call_deltas(await wire(Dialect(arguments_as_object=True)))
    assert whole["function"]["arguments"] == {"a": 1}
    assert "index" not in _call_deltas(await wire(Dialect(no_call_index=True)))[0]
    assert _call_deltas(await wire(Dialect(empty_call_id=True)))[0]["id"] == ""
    assert json.loads(await wire(Dialect(plain_json=True)))["object"] == "chat.completion"


def _call_deltas(raw: bytes) -> list[dict[str, Any]]:
    deltas = [event["choices"][0]["delta"] for event in events(raw)[:-1] if event["choices"]]
    return [call for delta in deltas for call in delta.get("tool_calls", ())]


async def test_rejections_match_openai(model_server: ModelServer) -> None:
    model_server.script(rate_limited("7"), context_too_long())
    status, raw, headers = await post(model_server)
    assert (status, headers["Retry-After"]) == (429, "7")
    status, raw, _ = await post(model_server)
    assert (status, json.loads(raw)["error"]["code"]) == (400, "context_length_exceeded")


async def test_orphan_tool_call_is_rejected(model_server: ModelServer) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    orphan = [*HI, {"role": "assistant", "content": None, "tool_calls": [call]}, *HI]
    status, raw, _ = await post(model_server, messages=orphan)
    assert status == 400
    assert "did not have response messages: c1" in json.loads(raw)["error"]["message"]


@pytest.mark.parametrize("kind", ["reset", "refuse"])
async def test_reset_reaches_the_client(model_server: ModelServer, kind: Any) -> None:
    model_server.script(ReplyScript(text="abc", breaks=Break(kind, after=2)))
    with pytest.raises(aiohttp.ClientError):
        await post(model_server, stream=True)


async def test_stream_can_end_without_a_final_chunk(model_server: ModelServer) -> None:
    model_server.script(ReplyScript(text="abcdef", breaks=Break("eof", after=2)))
    _, raw, _ = await post(model_server, stream=True)
    assert [event["choices"][0]["delta"]["content"] for event in events(raw)] == ["", "ab"]


async def test_stream_can_carry_an_error_or_garbage(model_server: ModelServer) -> None:
    model_server.script(
        ReplyScript(text="abc", breaks=Break("error", after=1)),
        ReplyScript(text="abc", breaks=Break("garbage", after=1)),
    )
    _, raw, _ = await post(model_server, stream=True)
    assert events(raw)[-1]["error"]["type"] == "server_error"
    _, raw, _ = await post(model_server, stream=True)
    assert raw.endswith(b"data: [DONE]\n\n")
    with pytest.raises(ValueError, match="Unterminated"):
        events(raw)


async def test_client_that_leaves_a_silent_stream_is_noticed(model_server: ModelServer) -> None:
    model_server.script(ReplyScript(text="abc", breaks=Break("hang")))
    asking = asyncio.create_task(post(model_server, stream=True))
    await model_server.wait_for(lambda: model_server.requests)
    asking.cancel()
    await model_server.wait_for(lambda: model_server.abandoned == 1)


async def test_worker_requests_each_effect_once_then_answers(tmp_path: Path) -> None:
    mind = worker(tmp_path / "effects")
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "job 1"},
        {"role": "assistant", "content": "done 1"},
        {"role": "user", "content": "please do job 2 tool"},
    ]
    (call,) = mind({"messages": messages}).tool_calls
    assert call.arguments == {"command": f"echo 2 >> {tmp_path / 'effects'}"}
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [{"id": call.id}]},
        {"role": "tool", "tool_call_id": call.id, "content": "ok"},
    ]
    reply = mind({"messages": messages})
    assert (reply.text, reply.tool_calls) == ("done 2", ())


async def test_process_obeys_its_options_and_control(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.fakes.model", "--reply", "fixed"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    port = json.loads(await process.stdout.readline())["port"]
    url = f"http://127.0.0.1:{port}"
    scripted = [{"tool_calls": [{"name": "f", "arguments": {"a": 1}}], "dialect": {"done": False}}]
    async with aiohttp.ClientSession() as session:
        await session.post(f"{url}/control/script", json=scripted)
        finishes = []
        for _ in range(2):
            body = {"model": "fake", "messages": HI}
            answer = await session.post(f"{url}/v1/chat/completions", json=body)
            finishes.append((await answer.json())["choices"][0]["finish_reason"])
        result = await (await session.get(f"{url}/control/requests?since=1")).json()
    process.send_signal(signal.SIGTERM)
    assert await process.wait() == 0
    assert finishes == ["tool_calls", "stop"]
    assert json.loads(result[0]["raw"])["messages"] == HI
