"""Attacks from the same machine, from the network, and from web pages."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from yarl import URL

from agent.security.key_proof import key_of
from agent.types import assistant
from gateway.config.sections import ServerSection
from gateway.control.calls import call_names, find_call
from gateway.control.declaration import CallScope
from gateway.server.timeouts import ServerTimeouts
from tests.gateway.parts import tool_call
from tests.gateway.server.browser import login_code
from tests.gateway.server.proving import is_let_in, log_in, log_out
from tests.gateway.server.served import Served, served

PLAIN: dict[object, object] = {str: "x", int: 1, bool: False, float: 1.0}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path, hosts=["kore.example.org"]) as server:
        yield server


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer kore_x"},
        {"Authorization": "Basic {admin}"},
        {"Authorization": "{admin}"},
        {"X-Token": "{admin}"},
        {"Cookie": "kore_token={admin}; kore_token_{port}={admin}"},
        {"X-Kore-Key": "{admin}", "Origin": "http://{host}"},
        {"Sec-WebSocket-Protocol": "kore, {admin}"},
        {"Authorization": "Bearer {admin}", "Host": "attacker.example"},
        {"Authorization": "Bearer {admin}", "Host": "127.0.0.1.attacker.example"},
        {"Authorization": "Bearer {admin}", "Host": "127.0.0.1@attacker.example"},
        {"Authorization": "Bearer {admin}", "Host": ""},
        {"Authorization": "Bearer {admin}", "Origin": "http://attacker.example"},
        {"Authorization": "Bearer {admin}", "Origin": "null"},
        {"Authorization": "Bearer {admin}", "Origin": "https://{host}.attacker.example"},
        {"Authorization": "Bearer {admin}", "Origin": "ftp://{host}"},
        {"Authorization": "Bearer {admin}", "Sec-Fetch-Site": "same-site"},
    ],
)
async def test_invalid_credentials_and_foreign_origins_are_rejected(
    server: Served, headers: dict[str, str]
) -> None:
    host = urlsplit(server.address).netloc
    admin = server.secrets["admin"]
    values = {"admin": admin, "host": host, "port": urlsplit(server.address).port}
    sent = {name: value.format(**values) for name, value in headers.items()}
    sent.setdefault("Content-Type", "application/json")
    async with aiohttp.ClientSession(server.address) as session:
        async with session.post("/v1/calls/status", data=b"{}", headers=sent) as response:
            assert response.status in (400, 401, 403)
            assert "value" not in await response.json(content_type=None)
        refused = aiohttp.WSServerHandshakeError
        with pytest.raises(refused):
            await session.ws_connect("/v1/connect", headers=sent)


async def test_token_in_the_query_is_ignored(server: Served) -> None:
    secret = server.secrets["admin"]
    async with aiohttp.ClientSession(server.address) as session:
        for query in ("token", "access_token", "authorization"):
            async with session.post(f"/v1/calls/status?{query}={secret}", json={}) as response:
                assert response.status == 401


async def test_configured_host_name_is_accepted(server: Served) -> None:
    async with (
        server.session(Host="kore.example.org") as session,
        session.post("/v1/calls/status", json={}) as response,
    ):
        assert response.status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v1/calls/..%2f..%2fetc%2fpasswd",
        "/v1/calls/../calls/status",
        "/v1/calls/__class__",
        "/v1/calls/_call",
        "/v1/calls/__init__",
        "/etc/passwd",
        "/..%2f..%2f..%2fetc/passwd",
        "/v1/",
    ],
)
async def test_path_cannot_reach_files_or_internal_methods(server: Served, path: str) -> None:
    url = URL(server.address + path, encoded=True)
    async with server.session("read") as session, session.get(url) as response:
        assert response.status in (403, 404, 405)
        assert "root:" not in await response.text()
    async with server.session("read") as session, session.post(url, json={}) as response:
        assert response.status in (200, 403, 404, 405)
        assert "root:" not in await response.text()


async def test_token_guessing_is_throttled(server: Served) -> None:
    async with aiohttp.ClientSession(server.address) as session:
        statuses = []
        for n in range(15):
            headers = {"Authorization": f"Bearer kore_{n}"}
            async with session.post("/v1/calls/status", json={}, headers=headers) as response:
                statuses.append(response.status)
    assert statuses[:10] == [401] * 10
    assert set(statuses[11:]) == {429}
    with pytest.raises(PermissionError, match="too-many-tries"):
        await log_in(server.address, "x")
    # Failures without a token do not lock out a client that has a token.
    assert (await server.call("status"))[0] == 200
    assert await is_let_in(server.address, key_of(server.secrets["read"]))


async def test_login_code_works_once(server: Served) -> None:
    async with server.session() as session:
        code = await login_code(session)
    key = await log_in(server.address, code)
    assert await is_let_in(server.address, key)
    with pytest.raises(PermissionError):
        await log_in(server.address, code)
    await log_out(server.address, key)
    assert not await is_let_in(server.address, key)


@pytest.mark.parametrize("scope", ["read", "chat", "approve"])
async def test_only_an_admin_creates_login_codes(server: Served, scope: CallScope) -> None:
    async with (
        server.session(scope) as session,
        session.post("/v1/login-codes", json={}) as response,
    ):
        assert response.status == 403


async def test_oversized_frame_closes_only_its_connection(server: Served) -> None:
    async with server.session() as session:
        async with session.ws_connect("/v1/connect") as socket:
            with suppress(ConnectionError):
                await socket.send_str('{"id": 1, "call": "' + "x" * 5_000_000 + '"}')
            ends = (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
            assert (await socket.receive()).type in ends
        assert (await server.call("status"))[0] == 200


async def test_slow_request_head_times_out(tmp_path: Path) -> None:
    async with served(tmp_path, timeouts=ServerTimeouts(idle_s=0.5)) as server:
        where = urlsplit(server.address)
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        async with asyncio.timeout(20):
            writer.write(b"GET /v1/hello HTTP/1.1\r\nHost: 127.0.0.1\r\n")
            assert await reader.read() in (b"",)
        writer.close()
        assert (await server.call("status"))[0] == 200


OWNERS_CALLS = [
    *("list_plugins", "look_at_plugin", "install_plugin", "change_plugin"),
    *("list_markets", "search_plugins", "add_market", "update_market", "remove_market"),
    *("check_policy", "list_roles", "list_settings", "check_setting", "change_setting"),
]


@pytest.mark.parametrize("scope", ["read", "chat", "approve"])
async def test_administrative_calls_require_the_admin_scope(
    server: Served, scope: CallScope
) -> None:
    """Over HTTP and WebSocket, with valid and missing arguments."""
    for name in OWNERS_CALLS:
        call = find_call(name)
        assert call is not None
        values = {result: PLAIN.get(kind, {}) for result, kind in call.arguments.items()}
        assert await server.call(name, scope, **values) == (403, "denied")
        assert await server.call(name, scope) == (403, "denied")
    async with server.session(scope) as session, session.ws_connect("/v1/connect") as socket:
        for number, name in enumerate(OWNERS_CALLS):
            await socket.send_json({"id": number, "call": name, "arguments": {}})
            assert (await socket.receive_json())["error"]["code"] == "denied"
    assert not (server.parts.workspace.parent / "plugins" / "markets").exists()


@pytest.mark.parametrize(
    "path",
    [
        *("/etc/passwd", "USER.md", "inbox/../USER.md", "inbox/api/x-0123456789abcdef.png"),
        *("inbox/notes.txt", "inbox/.upload-0123456789abcdef.part", ["inbox/x"], 7),
    ],
)
async def test_chat_scope_may_attach_only_uploads(server: Served, path: object) -> None:
    media = [{"kind": "document", "path": path}]
    answer = await server.call("send_message", "chat", session=None, text="hi", media=media)
    assert answer == (403, "denied")
    # The path of an upload reaches only files in the inbox.
    inbox = server.parts.workspace / "inbox"
    inbox.mkdir()
    (inbox / "x-0123456789abcdef.txt").symlink_to("/etc/passwd")
    media = [{"kind": "document", "path": "inbox/x-0123456789abcdef.txt"}]
    status, _ = await server.call("send_message", "chat", session=None, text="hi", media=media)
    assert status == 400


async def test_read_sent_file_reads_only_sent_files(tmp_path: Path) -> None:
    sending = tool_call("1", "send_file", paths=["a.txt"])
    reading = tool_call("2", "read_file", path="b.txt", paths=["b.txt"])
    failing = tool_call("3", "send_file", paths=["../secret.txt"])
    calls = (sending, reading, failing)
    async with served(tmp_path, [assistant("", calls), "done"]) as server:
        for name in ("secret.txt", "workspace/a.txt", "workspace/b.txt"):
            (tmp_path / name).write_text(name)
        _, session = await server.call("send_message", session=None, text="go")
        async with server.parts.service.follow_session(session) as events:
            async for event in events:
                if event.type in ("turn_end", "idle"):
                    break

        async def read(seq: int, call: str, number: int) -> tuple[int, object]:
            arguments = {"session": session, "seq": seq, "call": call, "number": number}
            return await server.call("read_sent_file", "read", **arguments)

        status, part = await read(2, "1", 0)
        assert status == 200
        assert isinstance(part, dict)
        assert base64.b64decode(part["data"]) == b"workspace/a.txt"
        others = [(2, "2", 0), (2, "3", 0), (1, "1", 0), (3, "1", 0), (2, "1", 1), (2, "1", -1)]
        assert {await read(*item) for item in [*others, (0, "1", 0), (2**40, "1", 0)]} == {
            (400, "error")
        }
        # A link that replaced the file in the meantime is not followed.
        (server.parts.workspace / "a.txt").unlink()
        (server.parts.workspace / "a.txt").symlink_to(tmp_path / "secret.txt")
        assert await read(2, "1", 0) == (400, "error")
        (server.parts.workspace / "a.txt").unlink()
        (server.parts.workspace / "a.txt").symlink_to("/dev/zero")
        assert await read(2, "1", 0) == (400, "error")


ODD_VALUES = [
    *("", "x" * 100_000, "\x00", "\ud800", "../../etc/passwd", "'; DROP TABLE session; --", "%s%n"),
    *(0, -1, 2**63, 2**200, -(2**200), 1.5, 1e308, True, None, [], {}, [[]], {"a": {}}),
]


def odd_calls(value: object) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield each call several times, each time with the value in place of another argument.

    `hand_over`, backups, exports and streams are left out.
    """
    for name in call_names():
        call = find_call(name)
        assert call is not None
        if name in ("hand_over", "backup", "export_person") or call.shape == "stream":
            continue
        plain = {result: PLAIN[kind] for result, kind in call.arguments.items() if kind in PLAIN}
        for argument in call.arguments or [""]:
            yield name, {**plain, argument: value}


@pytest.mark.parametrize("value", ODD_VALUES, ids=lambda value: repr(value)[:20])
async def test_odd_values_cause_no_internal_error(server: Served, value: object) -> None:
    async with server.session() as session:
        for name, arguments in odd_calls(value):
            async with session.post(f"/v1/calls/{name}", json=arguments) as response:
                assert response.status in (200, 400, 403, 404), (name, arguments)


TERMINAL_CALLS = [name for name in call_names() if "terminal" in name]


@pytest.mark.parametrize("scope", ["read", "chat", "approve"])
async def test_only_an_admin_reaches_a_terminal(tmp_path: Path, scope: CallScope) -> None:
    """All calls over HTTP and WebSocket, with the id of an open terminal."""
    section = ServerSection(terminal="full")
    async with served(tmp_path, settings={"server": section}) as server:
        terminal = (await server.call("open_terminal"))[1]
        arguments = {"terminal": terminal, "text": "x", "columns": 9, "rows": 9, "place": None}
        async with (
            server.session(scope) as session,
            session.ws_connect("/v1/connect") as socket,
        ):
            for number, name in enumerate(TERMINAL_CALLS):
                call = find_call(name)
                assert call is not None
                values = {key: arguments[key] for key in call.arguments}
                assert (await server.call(name, scope, **values))[0] == 403
                await socket.send_json({"id": number, "call": name, "arguments": values})
                assert (await socket.receive_json())["error"]["code"] == "denied"
        (left,) = (await server.call("terminal_status"))[1]["terminals"]
        assert left["exit_code"] is None
    assert len(TERMINAL_CALLS) == 6


async def test_no_terminal_opens_by_default(server: Served) -> None:
    assert (await server.call("terminal_status"))[1]["mode"] == "off"
    assert (await server.call("open_terminal"))[0] == 400
    assert (await server.call("terminal_status"))[1]["terminals"] == []
