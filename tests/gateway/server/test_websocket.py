"""Multiplexed calls over one connection, flow-controlled streams, and closed connections."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent.events import ToolResulted
from agent.types import assistant
from gateway.server.timeouts import ServerTimeouts
from gateway.server.websocket import MAX_CALLS, MAX_UNACKNOWLEDGED
from tests.gateway.parts import console_message, tool_call
from tests.gateway.server.served import Served, served


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as server:
        yield server


async def answer(socket: aiohttp.ClientWebSocketResponse, number: int) -> Any:
    """Return the next frame of this call."""
    async with asyncio.timeout(30):
        while (frame := await socket.receive_json())["id"] != number:
            pass
    return frame


async def test_calls_and_streams_share_a_connection(server: Served) -> None:
    async with server.session() as session, session.ws_connect("/v1/connect") as socket:
        await socket.send_json({"id": 1, "call": "create_session"})
        id_ = (await answer(socket, 1))["value"]
        await socket.send_json({"id": 2, "call": "follow_session", "arguments": {"session": id_}})
        assert await answer(socket, 2) == {"id": 2, "ready": True}
        say = {"session": id_, "text": "hi"}
        await socket.send_json({"id": 3, "call": "send_message", "arguments": say})
        results: list[Any] = []
        while not results or results[-1]["type"] != "turn_end":
            results.append((await answer(socket, 2))["item"])
        stored = [item for item in results if item["type"] == "message"]
        assert [item["seq"] for item in stored] == [1, 2]
        assert stored[1]["message"]["content"][0]["text"] == "re: hi"
        await socket.send_json({"id": 2, "cancel": True})
        while "end" not in await answer(socket, 2):
            pass


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("garbage", "error"),
        ("[]", "error"),
        ("{}", "error"),
        ('{"id": "x"}', "error"),
        ('{"id": true, "call": "status"}', "error"),
        ('{"id": 1}', "unknown-call"),
        ('{"id": 1, "call": "nothing"}', "unknown-call"),
        ('{"id": 1, "call": "status", "arguments": []}', "error"),
        ('{"id": 1, "call": "status", "arguments": {"x": 1}}', "error"),
        ('{"id": 1, "call": "backup", "arguments": {"target": "/tmp/x"}}', "denied"),
    ],
)
async def test_invalid_frames_are_reported_and_close_nothing(
    server: Served, frame: str, code: str
) -> None:
    async with server.session("read") as session, session.ws_connect("/v1/connect") as socket:
        await socket.send_str(frame)
        assert (await socket.receive_json())["error"]["code"] == code
        await socket.send_json({"id": 9, "call": "status"})
        assert "value" in await answer(socket, 9)


async def test_unacknowledged_stream_does_not_delay_others(server: Served) -> None:
    message = console_message("hi")
    lane = message.session_key
    async with server.session() as session, session.ws_connect("/v1/connect") as socket:
        await socket.send_json({"id": 1, "call": "watch", "arguments": {"lane": lane}})
        await answer(socket, 1)
        for n in range(MAX_UNACKNOWLEDGED + 50):
            server.parts.events.publish(lane, ToolResulted(str(n), "exec", "x", False, 0.1))
        await socket.send_json({"id": 2, "call": "status"})
        seen = 0
        async with asyncio.timeout(30):
            while (frame := await socket.receive_json())["id"] != 2:
                seen += "item" in frame
        await socket.send_json({"id": 1, "ack": 50})
        while seen < MAX_UNACKNOWLEDGED + 50:
            seen += "item" in await answer(socket, 1)
        await socket.send_json({"id": 3, "call": "status"})
        assert "value" in await answer(socket, 3)


async def test_concurrent_calls_of_a_client_are_limited(server: Served) -> None:
    async with server.session() as session, session.ws_connect("/v1/connect") as socket:
        for n in range(MAX_CALLS + 1):
            await socket.send_json({"id": n, "call": "watch", "arguments": {"lane": f"x{n}"}})
        assert "error" in await answer(socket, MAX_CALLS)
        await socket.send_json({"id": 0, "call": "status"})
        assert "error" in await answer(socket, 0)


@pytest.mark.parametrize("is_broken", [True, False])
async def test_invalid_token_file_closes_open_connections(tmp_path: Path, is_broken: bool) -> None:
    """A revocation after the file is restored closes connections, too."""
    path = tmp_path / "tokens.json"
    async with (
        served(tmp_path, timeouts=ServerTimeouts(revocation_s=0.05)) as server,
        server.session("read") as session,
        session.ws_connect("/v1/connect") as socket,
    ):
        if is_broken:
            path.write_bytes(b"{")
        else:
            server.tokens.revoke("read")
        async with asyncio.timeout(30):
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE


async def test_revoked_token_closes_its_connections(server: Served) -> None:
    async with server.session("read") as session, session.ws_connect("/v1/connect") as socket:
        server.tokens.revoke("read")
        async with asyncio.timeout(30):
            assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        async with session.post("/v1/calls/status", json={}) as response:
            assert response.status == 401


async def test_approval_is_requested_and_answered(tmp_path: Path) -> None:
    call = tool_call("1", "exec", command="touch done.txt")
    async with (
        served(tmp_path, [assistant("", (call,)), "done"]) as server,
        server.session() as session,
        session.ws_connect("/v1/connect") as socket,
    ):
        say = {"session": None, "text": "go"}
        await socket.send_json({"id": 1, "call": "send_message", "arguments": say})
        id_ = (await answer(socket, 1))["value"]
        follow = {"session": id_, "kinds": ["approval_asked", "turn_end"]}
        await socket.send_json({"id": 2, "call": "follow_session", "arguments": follow})
        await answer(socket, 2)
        result = None
        while result is None or result["type"] != "approval_asked":
            result = (await answer(socket, 2))["item"]
        reply = {"nonce": result["nonce"], "answer": "once", "by": "somebody"}
        await socket.send_json({"id": 3, "call": "answer_approval", "arguments": reply})
        last = None
        while last is None or last["type"] != "turn_end":
            last = (await answer(socket, 2)).get("item")
        assert (server.parts.workspace / "done.txt").exists()
