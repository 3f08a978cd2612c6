"""Stored answers of bare models: idempotency keys and conversations that can be continued."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.server.tokens import TokenFile
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.server.openai_api.clients import client_of, says, served_with_model
from tests.gateway.server.processes import KEY, Machine, free_port
from tests.gateway.server.served import Served

Both = tuple[Served, ModelServer]
CHAT, RESPONSES = "chat/completions", "responses"
QUESTIONS: dict[str, Any] = {
    CHAT: {"model": "stand-in", "messages": says("hi")},
    RESPONSES: {"model": "stand-in", "input": "hi"},
}
PATHS = pytest.mark.parametrize("path", [CHAT, RESPONSES])


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[Both]:
    async with served_with_model(tmp_path) as both:
        yield both


async def ask(
    server: Served, path: str, key: str | None = None, scope: Any = "chat", **more: Any
) -> tuple[int, str]:
    """Return the status and the text of an answer."""
    headers = {} if key is None else {"Idempotency-Key": key}
    async with (
        server.session(scope, **headers) as session,
        session.post(f"/v1/{path}", json={**QUESTIONS[path], **more}) as response,
    ):
        return response.status, await response.text()


def code_of(answer: str) -> str:
    return str(json.loads(answer)["error"]["code"])


@PATHS
@pytest.mark.parametrize("is_stream", [False, True])
async def test_repeated_key_returns_the_same_answer(both: Both, path: str, is_stream: bool) -> None:
    server, model = both
    calls = (Call("weather", {"place": "Rome"}), Call("weather", {"place": "Oslo"}))
    model.script(ReplyScript("I look.", tool_calls=calls, pieces=1), ReplyScript("other"))
    first, again = [await ask(server, path, "k", stream=is_stream) for _ in range(2)]
    assert first == again
    assert first[0] == 200
    assert "Oslo" in first[1]
    assert len(model.requests) == 1
    assert await ask(server, path, "k2", stream=is_stream) != first


@PATHS
async def test_key_is_bound_to_one_request_of_one_token(both: Both, path: str) -> None:
    server, model = both
    model.script(ReplyScript("one"), ReplyScript("two"))
    assert "one" in (await ask(server, path, "k"))[1]
    status, answer = await ask(server, path, "k", temperature=0.5)
    assert (status, code_of(answer)) == (422, "idempotency_key_reused")
    other = RESPONSES if path == CHAT else CHAT
    assert (await ask(server, other, "k"))[0] == 422
    assert "two" in (await ask(server, path, "k", scope="admin"))[1]


async def test_key_of_an_agent_is_bound_to_one_request(both: Both) -> None:
    server, model = both
    model.script(ReplyScript("once"))
    assert (await ask(server, CHAT, "k", model="kore"))[0] == 200
    assert (await ask(server, CHAT, "k", model="kore"))[0] == 200
    assert (await ask(server, CHAT, "k", model="kore", messages=says("no")))[0] == 422
    assert len(model.requests) == 1


async def test_requests_with_one_key_run_in_sequence(both: Both) -> None:
    server, model = both
    model.script(ReplyScript("once", waits_at=2))
    first, second = (asyncio.ensure_future(ask(server, RESPONSES, "k")) for _ in range(2))
    await model.wait_for(lambda: model.waiting)
    model.let_go()
    assert await first == await second
    assert len(model.requests) == 1


@PATHS
async def test_failed_call_is_repeated_under_its_key(both: Both, path: str) -> None:
    server, model = both
    model.mind = lambda _: ReplyScript(status=400)
    assert (await ask(server, path, "k"))[0] == 502
    model.script("now")
    assert "now" in (await ask(server, path, "k"))[1]


@PATHS
async def test_unstored_response_cannot_be_reused(both: Both, path: str) -> None:
    server, model = both
    model.script(ReplyScript("private"))
    status, first = await ask(server, path, "k", store=False)
    assert status == 200
    status, answer = await ask(server, path, "k", store=False)
    assert (status, code_of(answer)) == (410, "answer_not_stored")
    assert len(model.requests) == 1
    rows = await server.parts.stored("api_answer", "answer", "conversation")
    assert rows == [(None, None)]
    if path == RESPONSES:
        previous = json.loads(first)["id"]
        assert (await ask(server, path, previous_response_id=previous))[0] == 404


@pytest.mark.parametrize("model_name", ["stand-in", "kore"])
async def test_response_belongs_to_its_token(both: Both, model_name: str) -> None:
    server, model = both
    model.script(ReplyScript("one"), ReplyScript("two"))
    first = json.loads((await ask(server, RESPONSES, model=model_name))[1])["id"]
    more = {"model": model_name, "previous_response_id": first}
    status, answer = await ask(server, RESPONSES, scope="admin", **more)
    assert (status, code_of(answer)) == (404, "previous_response_not_found")
    assert (await ask(server, RESPONSES, **more))[0] == 200
    # A later token of the same name is a different token.
    server.tokens.revoke("chat")
    server.secrets["chat"] = server.tokens.add("chat", ("chat",))
    assert (await ask(server, RESPONSES, **more))[0] == 404


async def test_unknown_response_ids_and_too_long_keys_are_rejected(both: Both) -> None:
    server, model = both
    for name in ("stand-in", "kore"):
        for previous in ("resp_\0", "resp_\ud800", "x" * 100_000, "resp_%", "../x"):
            status, _ = await ask(server, RESPONSES, model=name, previous_response_id=previous)
            assert status == 404
        for path in (CHAT, RESPONSES):
            assert (await ask(server, path, "k" * 256, model=name))[0] == 400
        assert (await ask(server, RESPONSES, model="stand-in", store="no"))[0] == 400
    assert not model.requests


async def test_disconnected_client_finds_the_answer_to_its_key(both: Both) -> None:
    server, model = both
    model.script(ReplyScript("one two three", waits_at=2))
    async with client_of(server) as client:
        key = {"Idempotency-Key": "k"}
        stream = await client.chat.completions.create(
            model="stand-in", messages=says("hi"), stream=True, extra_headers=key
        )
        await anext(aiter(stream))
        await model.wait_for(lambda: model.waiting)
        await stream.close()
        model.let_go()
        again = await client.chat.completions.create(
            model="stand-in", messages=says("hi"), stream=True, extra_headers=key
        )
        words = [chunk.choices[0].delta.content or "" async for chunk in again]
    assert "".join(words) == "one two three"
    assert len(model.requests) == 1


async def test_answers_and_conversations_survive_a_kill(tmp_path: Path) -> None:
    """Send `kill -9` after the first call and in the middle of the second."""
    async with ModelServer(api_key=KEY) as model:
        machine, port = Machine(tmp_path, model), free_port()
        secret = TokenFile(machine.home / "tokens.json").add("program", ("chat",))
        address = f"http://127.0.0.1:{port}"
        question = {"model": "default", "input": "hi"}

        async def post(key: str, **more: Any) -> dict[str, Any]:
            headers = {"Authorization": f"Bearer {secret}", "Idempotency-Key": key}
            async with (
                aiohttp.ClientSession(address, headers=headers) as session,
                session.post("/v1/responses", json={**question, **more}) as response,
            ):
                answer: dict[str, Any] = await response.json()
                return answer

        model.script("Hello Ann.", ReplyScript("lost", waits_at=2), "found", "Ann")
        async with machine.serving("--listen-addr", f"127.0.0.1:{port}") as process:
            first = await post("k1")
            assert first["output"][0]["content"][0]["text"] == "Hello Ann."
            broken = asyncio.ensure_future(post("k2"))
            await model.wait_for(lambda: model.waiting)
            process.send_signal(signal.SIGKILL)
            with pytest.raises(aiohttp.ClientError):
                await broken
            model.let_go()
        async with machine.serving("--listen-addr", f"127.0.0.1:{port}"):
            assert await post("k1") == first
            again = [await post("k2") for _ in range(2)]
            assert again[0]["output"][0]["content"][0]["text"] == "found"
            assert again[0] == again[1]
            second = await post("k3", input="Who am I?", previous_response_id=first["id"])
        assert second["output"][0]["content"][0]["text"] == "Ann"
        sent = json.dumps(model.requests[-1].body["messages"])
        assert sent.index("hi") < sent.index("Hello Ann.") < sent.index("Who am I?")
        assert len(model.requests) == 4
