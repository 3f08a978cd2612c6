"""Chat completions by Kore's agent, with OpenAI's own client."""

import asyncio
import base64
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from agent.providers.scripted import ScriptedProvider
from agent.types import ImageFile, ToolCall, assistant
from gateway.core.records import MessageOutcome
from gateway.server.openai_api.agent_answer import TurnEnd
from tests.fakes.gated import Gated
from tests.gateway.server.openai_api.clients import client_of, says, streamed_chunks
from tests.gateway.server.served import Served, served

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as server:
        yield server


async def stored_roles(server: Served, session: str) -> list[str]:
    _, messages = await server.call("load_messages", session=session)
    return [message["role"] for message in messages]


@pytest.mark.counterpart("openai")
async def test_models_are_agents_and_profiles(server: Served) -> None:
    async with client_of(server, "read") as client:
        names = [model.id async for model in client.models.list()]
        assert names[:1] == ["kore"]
        assert {"kore/build", "kore/plan"} <= set(names)
        assert (await client.models.retrieve("kore/build")).owned_by == "kore"
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("kore/nobody")


@pytest.mark.counterpart("openai")
async def test_chat_completion(server: Served) -> None:
    async with client_of(server) as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="kore", messages=says("hi")
        )
        answer = raw.parse()
    assert answer.choices[0].message.content == "re: hi"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert await stored_roles(server, raw.headers["X-Kore-Session"]) == ["user", "assistant"]


async def test_tools_of_a_client_are_left_unused(server: Served) -> None:
    """Open WebUI sends tools with every message."""
    tools: Any = [{"type": "function", "function": {"name": "search_notes", "parameters": {}}}]
    async with client_of(server) as client:
        create = client.chat.completions.create
        answer = await create(model="kore", messages=says("hi"), tools=tools)
        assert answer.choices[0].message.content == "re: hi"
        with pytest.raises(openai.BadRequestError, match="tools of its own"):
            await create(model="kore", messages=says("hi"), tools=tools, tool_choice="required")


@pytest.mark.counterpart("openai")
async def test_streamed_answer_with_usage(server: Served) -> None:
    chunks = await streamed_chunks(server, "kore/plan", "hi")
    words = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert "".join(word or "" for word in words) == "re: hi"
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None
    assert not chunks[-1].choices


async def test_session_is_found_by_header_user_and_history(server: Served) -> None:
    async with client_of(server) as client:
        create = client.chat.completions.with_raw_response.create

        async def session_of(**options: Any) -> str:
            response = await create(model="kore", **options)
            assert response.parse().choices[0].message.content
            return str(response.headers["X-Kore-Session"])

        first = await session_of(messages=says("one"))
        by_header = {"X-Kore-Session": first}
        assert await session_of(messages=says("two"), extra_headers=by_header) == first
        ann = await session_of(messages=says("one"), user="ann")
        assert await session_of(messages=says("two"), user="ann") == ann
        assert await session_of(messages=says("one"), user="bob") not in (first, ann)
        results: list[Any] = [*says("three")]
        third = await session_of(messages=results)
        results += [{"role": "assistant", "content": "re: three"}, *says("four")]
        assert await session_of(messages=results) == third
        # A repeated request starts another conversation, whose history the client supplies.
        fork = await session_of(messages=results)
    assert fork not in (first, ann, third)
    _, messages = await server.call("load_messages", session=fork)
    assert "assistant: re: three" in messages[0]["content"][0]["text"]
    assert len(await stored_roles(server, third)) == 4


async def test_same_idempotency_key_runs_one_turn(server: Served) -> None:
    async with client_of(server) as client:
        answers = [
            await client.chat.completions.with_raw_response.create(
                model="kore",
                messages=says("hi"),
                extra_headers={"Idempotency-Key": "k1"},
            )
            for _ in range(2)
        ]
        sessions = {answer.headers["X-Kore-Session"] for answer in answers}
        texts = [answer.parse().choices[0].message.content for answer in answers]
    assert texts == ["re: hi", "re: hi"]
    (session,) = sessions
    assert await stored_roles(server, session) == ["user", "assistant"]


@pytest.mark.counterpart("openai")
async def test_automatic_client_retry_runs_one_turn(server: Served) -> None:
    async with client_of(server) as client:
        create = client.chat.completions.with_raw_response.create
        first = await create(model="kore", messages=says("hi"))
        again = await create(
            model="kore", messages=says("hi"), extra_headers={"x-stainless-retry-count": "1"}
        )
        other = await create(model="kore", messages=says("hi"))
    assert first.headers["X-Kore-Session"] == again.headers["X-Kore-Session"]
    assert first.headers["X-Kore-Session"] != other.headers["X-Kore-Session"]


async def test_disconnected_client_stops_its_turn(server: Served) -> None:
    async with client_of(server) as client:
        stream = await client.chat.completions.create(
            model="kore", messages=says("long"), stream=True
        )
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
        await stream.close()
    await server.parts.until_stored("turn", state="done")
    _, (session,) = await server.call("list_sessions")
    assert session["status"] == "idle"


@pytest.mark.counterpart("openai")
@pytest.mark.parametrize("path", ["chat/completions", "responses"])
async def test_client_timeout_stops_its_turn(tmp_path: Path, path: str) -> None:
    provider = Gated()
    body = {"model": "kore", "messages": says("long"), "input": "long"}
    async with served(tmp_path, provider) as server:
        async with server.session("chat") as session:
            posting = asyncio.ensure_future(session.post(f"/v1/{path}", json=body))
            await provider.wait_for_text("long")
            posting.cancel()
            await asyncio.wait({posting})
        await server.parts.until_stored("turn", state="done")


@pytest.mark.parametrize(
    ("sent", "has_gap", "unsent"),
    [
        ("", False, "all of it"),
        ("all of it", False, ""),
        ("all", True, " of it"),
        ("other", True, "\n\nall of it"),
        ("all of it", True, ""),
    ],
)
def test_unsent_text_is_computed(sent: str, has_gap: bool, unsent: str) -> None:
    outcome = MessageOutcome("done", text="all of it")
    end = TurnEnd(outcome, None, None, "", (), has_gap)
    assert end.unsent(sent, "t") == unsent


@pytest.mark.counterpart("openai")
async def test_picture_reaches_the_agent(server: Served) -> None:
    content = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ]
    async with client_of(server) as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="kore",
            messages=[{"role": "user", "content": content}],  # type: ignore[list-item,misc]
        )
    messages = await server.parts.service.load_messages(raw.headers["X-Kore-Session"])
    assert any(isinstance(part, ImageFile) for part in messages[0].content)


async def test_questions_are_denied_for_a_token_that_may_not_approve(tmp_path: Path) -> None:
    write = ToolCall("1", "exec", {"command": "touch x"}, '{"command": "touch x"}')
    script = [assistant("", (write,)), "done"]
    async with served(tmp_path, ScriptedProvider(script)) as server, client_of(server) as client:
        answer = await client.chat.completions.create(model="kore", messages=says("do"))
    text = answer.choices[0].message.content or ""
    assert text.startswith("done")
    assert "`exec touch x`" in text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "no-such", "messages": says("x")}, 404),
        ({"model": "kore", "messages": []}, 400),
        ({"model": "kore", "messages": [{"role": "robot", "content": "x"}]}, 400),
        ({"model": "kore", "messages": [{"role": "user", "content": 3}]}, 400),
        ({"model": "kore", "messages": says("/auto")}, 403),
        ({"model": "kore", "messages": says("x"), "n": 2}, 400),
        ({"model": 3, "messages": says("x")}, 400),
    ],
)
async def test_invalid_request_is_an_error(server: Served, body: Any, status: int) -> None:
    async with (
        server.session("chat") as session,
        session.post("/v1/chat/completions", json=body) as response,
    ):
        error = (await response.json())["error"]
    assert response.status == status
    assert {"message", "type", "param", "code"} <= error.keys()


async def test_invalid_body_is_rejected(server: Served) -> None:
    async with server.session("chat") as session:
        for data, kind, status in (
            (b"{", "application/json", 400),
            (b"[]", "application/json", 400),
            (b"{}", "text/plain", 415),
            (b" " * 5_000_000, "application/json", 413),
        ):
            headers = {"Content-Type": kind}
            async with session.post(
                "/v1/responses", data=io.BytesIO(data), headers=headers
            ) as response:
                assert response.status == status
                assert (await response.json())["error"]["type"] == "invalid_request_error"


async def test_unknown_session_is_not_found(server: Served) -> None:
    async with client_of(server) as client:
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(
                model="kore", messages=says("hi"), extra_headers={"X-Kore-Session": "nowhere"}
            )


async def test_read_scope_cannot_chat(server: Served) -> None:
    async with client_of(server, "read") as client:
        with pytest.raises(openai.PermissionDeniedError):
            await client.chat.completions.create(model="kore", messages=says("hi"))
    assert (await server.call("list_sessions"))[1] == []


async def test_session_is_named_after_the_first_user_message(server: Served) -> None:
    system: Any = {"role": "system", "content": "You are brief."}
    names = []
    async with client_of(server) as client:
        for messages in (
            [system, *says("a\n long\tquestion")],
            [*says("earlier"), {"role": "assistant", "content": "x"}, *says("now")],
            says("plain"),
        ):
            await client.chat.completions.create(model="kore", messages=messages)
            _, (session, *_) = await server.call("list_sessions")
            names.append(session["name"])
    assert names == ["a long question", "earlier", "plain"]


async def test_system_message_sent_once_belongs_to_the_conversation(
    server: Served,
) -> None:
    """Gradio 5's `load_chat` sends it with the first request only."""
    system: Any = {"role": "system", "content": "You are brief."}
    results: list[Any] = [system, *says("one")]
    sessions = []
    async with client_of(server) as client:
        for text in ("two", "three"):
            raw = await client.chat.completions.with_raw_response.create(
                model="kore", messages=results
            )
            sessions.append(raw.headers["X-Kore-Session"])
            answer = raw.parse().choices[0].message.content
            results = [item for item in results if item is not system]
            results += [{"role": "assistant", "content": answer}, *says(text)]
    assert len(set(sessions)) == 1
