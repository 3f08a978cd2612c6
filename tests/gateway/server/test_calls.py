"""Calls over HTTP: permissions of tokens, and errors for missing permissions."""

import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.providers.scripted import EchoProvider
from gateway.control.calls import call_names, find_call
from gateway.control.declaration import CallScope
from gateway.core.messages import Sender
from tests.gateway.parts import console_message
from tests.gateway.server.served import Served, served

TOUCH = 'Go.\n!tool exec {"command": "touch new.txt"}'


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as server:
        yield server


async def test_conversation_works_over_calls(server: Served) -> None:
    status, session = await server.call("send_message", "chat", session=None, text="hi")
    assert status == 200
    async with server.parts.service.follow_session(session) as events:
        async for event in events:
            if event.type in ("turn_end", "idle"):
                break
    _, messages = await server.call("load_messages", "read", session=session)
    assert [message["role"] for message in messages] == ["user", "assistant"]
    _, sessions = await server.call("list_sessions", "read")
    assert [item["id"] for item in sessions] == [session]


@pytest.mark.parametrize("scope", ["read", "chat", "approve"])
async def test_token_may_call_within_its_scope(server: Served, scope: CallScope) -> None:
    """A permitted call is rejected for its arguments, any other call for its scope."""
    for name in call_names():
        call = find_call(name)
        assert call is not None
        status, code = await server.call(name, scope, no_such_argument=1)
        if call.declaration.scope in (scope, "read"):
            assert (status, code) == (400, "error"), name
        else:
            assert (status, code) == (403, "denied"), name


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("store_picture", {"data": "", "token": "bob"}),
        ("watch", {"lane": "cli:local:main", "folder": "/"}),
        ("create_session", {"folder": {"workspace": "/", "start_folder": None}}),
    ],
)
async def test_admin_arguments_need_an_admin(
    server: Served, call: str, arguments: dict[str, str]
) -> None:
    assert await server.call(call, "chat", **arguments) == (403, "denied")
    assert (await server.call(call, "admin", **arguments))[0] == 400


async def test_unknown_call_and_invalid_arguments_are_reported(server: Served) -> None:
    assert await server.call("no_such_call") == (404, "unknown-call")
    assert (await server.call("search_messages", words=3))[0] == 400
    assert (await server.call("watch", lane="x"))[0] == 400
    async with server.session() as session:
        for body in (b"[]", b"{", b"\xff", b"[" * 50_000):
            async with session.post("/v1/calls/status", data=body) as response:
                assert response.status == 400
        async with session.post("/v1/calls/status", data=io.BytesIO(b"x" * 5_000_000)) as response:
            assert response.status == 413


@pytest.mark.parametrize(
    "message",
    [
        {"text": "/auto"},
        {"text": "\n /mode auto"},
        {"text": "hi", "mode": "auto"},
        {"text": "hi", "mode": "accept-edits"},
        {"text": "hi", "media": [{"kind": "photo", "path": "/etc/passwd"}]},
    ],
)
async def test_chat_scope_cannot_grant_permissions(
    server: Served, message: dict[str, object]
) -> None:
    answer = await server.call("send_message", "chat", session=None, **message)
    assert answer == (403, "denied")


async def test_chat_scope_does_not_use_a_more_permissive_mode_of_the_session(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, EchoProvider()) as server:
        session = await server.parts.service.create_session()
        await server.parts.service.choose_mode(session, "auto")
        assert (await server.call("send_message", "chat", session=session, text=TOUCH))[0] == 200
        await server.parts.until_stored("approval", state="open")
        assert not (server.parts.workspace / "new.txt").exists()


async def test_mode_of_a_chat_token_is_not_stored(tmp_path: Path) -> None:
    async with served(tmp_path, EchoProvider()) as server:
        session = await server.parts.service.create_session()
        await server.parts.service.choose_mode(session, "plan")
        sent = {"session": session, "text": TOUCH, "mode": "ask"}
        assert (await server.call("send_message", "chat", **sent))[0] == 200
        await server.parts.until_stored("turn", state="done")
        assert await server.parts.count("approval") == 0
        assert await server.parts.service.session_mode(session) == "plan"


async def test_chat_scope_does_not_loosen_plan_mode(tmp_path: Path) -> None:
    async with served(tmp_path, EchoProvider()) as server:
        session = await server.parts.service.create_session()
        await server.parts.service.choose_mode(session, "plan")
        assert (await server.call("send_message", "chat", session=session, text=TOUCH))[0] == 200
        await server.parts.until_stored("turn", state="done")
        assert await server.parts.count("approval") == 0


async def test_admin_submits_only_as_the_owner(server: Served) -> None:
    submit = find_call("submit")
    assert submit is not None
    mine = console_message("hi", "attached", sender=Sender("4711"))
    arguments = submit.encode_arguments((mine,), {})
    assert (await server.call("submit", **arguments))[0] == 200
    ((principal,),) = await server.parts.stored("inbox", "principal")
    assert principal != "cli:4711"
    arguments["message"]["channel"] = "telegram"
    assert await server.call("submit", **arguments) == (403, "denied")
