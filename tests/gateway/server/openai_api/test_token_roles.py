"""Tokens with a role, whose users can only talk to Kore and have separate identities."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Barrier
from typing import Any

import aiohttp
import openai
import pytest

from agent.errors import KoreError
from agent.providers.scripted import ScriptedProvider
from agent.security.key_proof import key_of
from agent.types import assistant
from gateway.control.calls import call_names
from gateway.core.token_routes import MAX_UNFINISHED
from gateway.server.timeouts import ServerTimeouts
from gateway.server.tokens import TokenFile
from tests.fakes.gated import Gated
from tests.gateway.access.approvals import Asking, change
from tests.gateway.parts import accept_messages, chat_message, tool_call
from tests.gateway.server.openai_api.clients import says
from tests.gateway.server.proving import is_let_in, log_in
from tests.gateway.server.served import Served, served

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
OWNER = "chat:7"
HOST = "127.0.0.1:8790"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as server:
        yield server


@asynccontextmanager
async def api_client(
    server: Served, name: str = "kiosk", role: str = "guest"
) -> AsyncIterator[openai.AsyncOpenAI]:
    """Yield OpenAI's client with a new token of this role."""
    secret = server.tokens.add(name, ("chat",), role)
    server.secrets[name] = secret  # type: ignore[index]
    async with openai.AsyncOpenAI(
        base_url=f"{server.address}/v1", api_key=secret, max_retries=0
    ) as client:
        yield client


async def say(client: openai.AsyncOpenAI, text: str, **options: Any) -> tuple[str, str]:
    """Return the answer and its session."""
    raw = await client.chat.completions.with_raw_response.create(
        model="kore", messages=says(text), **options
    )
    return raw.parse().choices[0].message.content or "", raw.headers["X-Kore-Session"]


async def test_token_with_a_role_is_its_own_person(server: Served) -> None:
    async with api_client(server) as client:
        answer, session = await say(client, "hi", user="ann")
        again, same = await say(client, "hello", user="ann")
        assert [model.id async for model in client.models.list()] == ["kore"]
    assert (answer, again, same) == ("re: hi", "re: hello", session)
    info = (await server.parts.service.preview_session(session, 0, 0)).info
    assert (info.principal, info.messages) == ("api:kiosk", 4)
    rows = await server.parts.stored("inbox", "channel", "principal")
    assert set(rows) == {("api", "api:kiosk")}
    assert await server.parts.stored("outbox", "state") == [("sent",), ("sent",)]


async def test_token_with_a_role_streams_and_continues_a_response(server: Served) -> None:
    async with api_client(server) as client:
        stream = await client.chat.completions.create(
            model="kore", messages=says("hi"), stream=True
        )
        words = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
        first = await client.responses.create(model="kore", input="one")
        second = await client.responses.create(
            model="kore", input="two", previous_response_id=first.id
        )
    assert "".join(words) == "re: hi"
    assert (first.output_text, second.output_text) == ("re: one", "re: two")
    counts = {info.messages for info in await server.parts.service.list_sessions()}
    assert counts == {2, 4}


async def test_role_limits_its_turns(tmp_path: Path) -> None:
    """A guest can neither read the owner's notes, not even with a command, nor write files."""
    steps = [
        assistant("", (tool_call("1", "read_file", path="memory/MEMORY.md"),)),
        assistant("", (tool_call("2", "write_file", path="a.txt", content="x"),)),
        assistant("", (tool_call("3", "exec", command="cat memory/MEMORY.md"),)),
        "done",
    ]
    async with served(tmp_path, ScriptedProvider(steps)) as server, api_client(server) as client:
        (server.parts.workspace / "memory").mkdir()
        (server.parts.workspace / "memory" / "MEMORY.md").write_text("SECRET")
        _, session = await say(client, "do")
        messages = await server.parts.service.load_messages(session)
        assert not (server.parts.workspace / "a.txt").exists()
    results = [message for message in messages if message.role == "tool"]
    assert [result.is_error for result in results] == [True, True, True]
    assert "SECRET" not in "".join(result.text for result in results)


async def test_questions_of_a_token_go_to_the_owner(tmp_path: Path) -> None:
    script = ScriptedProvider(["hello", assistant("", (change("1"),)), "written"])
    platform = Asking()
    async with (
        served(tmp_path, script, platform=platform, owner=OWNER) as server,
        api_client(server, role="build") as client,
    ):
        (server.parts.workspace / "a.txt").write_text("old\n")
        await accept_messages(server.parts, chat_message("hi", "7"))
        await platform.answers("7", 1)
        saying = asyncio.ensure_future(say(client, "write"))
        await platform.answers("7", 2)
        (question,) = await server.parts.service.list_approvals()
        assert question.route.lane == "chat:bot:7"
        target = server.parts.workspace / "a.txt"
        assert target.read_text() == "old\n"
        await server.parts.service.answer_approval(question.nonce, "once", OWNER)
        answer, _ = await saying
        assert target.read_text() == "new\n"
    assert "written" in answer


async def test_question_without_an_owner_is_denied(tmp_path: Path) -> None:
    script = ScriptedProvider([assistant("", (change("1"),)), "not written"])
    async with served(tmp_path, script) as server, api_client(server, role="build") as client:
        target = server.parts.workspace / "a.txt"
        target.write_text("old\n")
        answer, _ = await say(client, "write")
        assert target.read_text() == "old\n"
    assert answer == "not written"


async def test_job_without_a_delivery_route_is_rejected(tmp_path: Path) -> None:
    later = assistant(
        "", (tool_call("1", "schedule", action="add", when="in 2 hours", text="tea"),)
    )
    async with (
        served(tmp_path, ScriptedProvider([later, "no"])) as server,
        api_client(server, role="general") as client,
    ):
        _, session = await say(client, "remind me")
        messages = await server.parts.service.load_messages(session)
        assert await server.parts.service.list_jobs() == []
    assert "over the API" in "".join(message.text for message in messages if message.role == "tool")


async def test_pictures_of_a_token_are_in_its_own_folder(server: Served) -> None:
    content = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ]
    async with api_client(server) as client:
        await client.chat.completions.create(
            model="kore",
            messages=[{"role": "user", "content": content}],  # type: ignore[list-item,misc]
        )
    inbox = server.parts.workspace / "inbox"
    assert [path.parent for path in inbox.rglob("*.png")] == [inbox / "api" / "kiosk"]


async def test_calls_pages_and_login_reject_a_token_with_a_role(server: Served) -> None:
    """Only the three API addresses are open, by any path, connection or login."""
    async with api_client(server):
        secret = server.secrets["kiosk"]  # type: ignore[index]
    paths = [f"/v1/calls/{name}" for name in call_names()]
    paths += ["/v1/login-codes", "/v1/models/../calls/status"]
    paths += ["/v1/models/%2e%2e/calls/status", "/v1/models%2f..%2fcalls/status", "/v1/"]
    headers = {"Authorization": f"Bearer {secret}"}
    async with aiohttp.ClientSession(server.address, headers=headers) as session:
        for path in paths:
            async with session.post(path, json={}) as response:
                assert response.status in (403, 404, 405), path
                assert "value" not in await response.text(), path
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await session.ws_connect("/v1/connect")
    assert not await is_let_in(server.address, key_of(secret))
    with pytest.raises(PermissionError):
        await log_in(server.address, secret)


@pytest.mark.parametrize("owner", ["chat", "lodger"])
async def test_sessions_of_others_cannot_be_named(tmp_path: Path, owner: str) -> None:
    """Sessions of the owner or another token, named by id, id prefix, response or key."""
    async with served(tmp_path) as server, api_client(server) as client:
        if owner == "lodger":
            server.secrets["lodger"] = server.tokens.add("lodger", ("chat",), "guest")  # type: ignore[index]
        async with openai.AsyncOpenAI(
            base_url=f"{server.address}/v1",
            api_key=server.secrets[owner],  # type: ignore[index]
            max_retries=0,
        ) as other:
            key = {"Idempotency-Key": "k"}
            _, session = await say(other, "private words", user="ann", extra_headers=key)
            response = await other.responses.create(model="kore", input="private too")
        for name in (session, session[:4], session[:-1], "", "%", "*"):
            with suppress(openai.NotFoundError):
                _, result = await say(client, "hi", extra_headers={"X-Kore-Session": name})
                assert name == ""
                assert result != session
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(
                model="kore", input="go on", previous_response_id=response.id
            )
        answer, result = await say(client, "mine", user="ann", extra_headers=key)
        assert answer == "re: mine"
        assert result != session


async def test_new_token_with_a_reused_name_is_a_different_person(tmp_path: Path) -> None:
    """The owner's token was revoked, and its name is used again for another person."""
    async with served(tmp_path) as server:
        key = {"Idempotency-Key": "k"}
        async with openai.AsyncOpenAI(
            base_url=f"{server.address}/v1", api_key=server.secrets["chat"], max_retries=0
        ) as owner:
            _, session = await say(owner, "private", user="ann", extra_headers=key)
        server.tokens.revoke("chat")
        async with api_client(server, "chat") as client:
            answer, result = await say(client, "mine", user="ann", extra_headers=key)
    assert answer == "re: mine"
    assert result != session


@pytest.mark.parametrize("model", ["kore/build", "kore/plan", "default", "openai/gpt-5"])
async def test_agent_and_model_cannot_be_chosen(server: Served, model: str) -> None:
    async with api_client(server) as client:
        with pytest.raises(openai.NotFoundError):
            await client.chat.completions.create(model=model, messages=says("hi"))
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(model=model, input="hi")


async def test_commands_are_refused(server: Served) -> None:
    async with api_client(server, role="build") as client:
        for text in ("/auto", " /new", "\n/pair", "/sessions", "/start 123456"):
            with pytest.raises(openai.PermissionDeniedError):
                await client.chat.completions.create(model="kore", messages=says(text))
            with pytest.raises(openai.PermissionDeniedError):
                await client.responses.create(model="kore", input=text)
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(model="kore", messages=says(" "))
    assert await server.parts.service.list_sessions() == []


async def test_flood_of_one_token_leaves_room_for_the_owner(tmp_path: Path) -> None:
    """Each request of the flood is a new conversation, and its client does not wait."""
    provider = Gated(is_open=lambda text: text == "owner")
    async with served(tmp_path, provider) as server, api_client(server) as client:

        def flood(n: int) -> asyncio.Task[tuple[str, str]]:
            key = {"Idempotency-Key": str(n)}
            return asyncio.ensure_future(say(client, f"flood {n}", extra_headers=key))

        waiting = [flood(n) for n in range(MAX_UNFINISHED)]
        async with asyncio.timeout(30):
            while await server.parts.count("inbox") < MAX_UNFINISHED:
                await asyncio.sleep(0.01)
        sessions = len(await server.parts.service.list_sessions())
        for user in ("", "ann"):
            with pytest.raises(openai.RateLimitError):
                await say(client, "one more", user=user)
            with pytest.raises(openai.RateLimitError):
                await client.responses.create(model="kore", input="one more", user=user)
        assert len(await server.parts.service.list_sessions()) == sessions
        again = flood(0)
        async with openai.AsyncOpenAI(
            base_url=f"{server.address}/v1", api_key=server.secrets["chat"], max_retries=0
        ) as owner:
            assert (await say(owner, "owner"))[0] == "re: owner"
        provider.let_go()
        assert await again == await waiting[0]
        assert (await say(client, "later"))[0] == "re: later"


async def test_idempotency_keys_belong_to_the_principal(server: Served) -> None:
    async with api_client(server) as client:
        await say(client, "hi", extra_headers={"Idempotency-Key": "k"})
    assert await server.parts.stored("api_answer", "principal") == [("api:kiosk",)]


@pytest.mark.parametrize("is_stream", [False, True])
async def test_revoked_token_sends_and_receives_nothing(tmp_path: Path, is_stream: bool) -> None:
    provider = Gated()
    timeouts = ServerTimeouts(revocation_s=0.05)
    async with (
        served(tmp_path, provider, timeouts=timeouts) as server,
        api_client(server, role="build") as client,
    ):
        headers = {"Authorization": f"Bearer {client.api_key}", "Idempotency-Key": "k"}
        body = {"model": "kore", "messages": says("long"), "stream": is_stream}
        async with aiohttp.ClientSession(server.address, headers=headers) as session:
            saying = asyncio.ensure_future(session.post("/v1/chat/completions", json=body))
            await provider.wait_for_text("long")
            server.tokens.revoke("kiosk")
            access = server.parts.app.access
            assert not access.is_allowed(chat_message("x", channel="api", account="local"))
            with pytest.raises(aiohttp.ClientError):
                await (await saying).read()
        provider.let_go()
        with pytest.raises(openai.AuthenticationError):
            await say(client, "again")


def test_revoked_token_is_not_restored_by_concurrent_changes(tmp_path: Path) -> None:
    """Browser logins add tokens at the same moment."""
    path = tmp_path / "tokens.json"
    TokenFile(path).add("kiosk", ("chat",), "guest")
    together = Barrier(9)

    def change(work: Callable[[TokenFile], object]) -> None:
        tokens = TokenFile(path)
        together.wait()
        work(tokens)

    def add(n: int) -> Callable[[TokenFile], object]:
        return lambda tokens: tokens.add_browser(bytes([n]) * 32, None, HOST)

    with ThreadPoolExecutor(9) as pool:
        list(pool.map(change, [lambda tokens: tokens.revoke("kiosk"), *map(add, range(8))]))
    assert [token.parent for token in TokenFile(path).list()] == [""] * 8


def test_role_excludes_other_scopes(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    for scopes in (("admin",), ("read",), ("chat", "approve"), ()):
        with pytest.raises(KoreError):
            tokens.add("x", scopes, "guest")  # type: ignore[arg-type]
    secret = tokens.add("x", ("chat",), "guest")
    token = TokenFile(tmp_path / "tokens.json").find(secret)
    assert token is not None
    assert token.role == "guest"
    assert [scope for scope in ("read", "chat", "approve", "admin") if token.allows(scope)] == [  # type: ignore[arg-type]
        "chat"
    ]
