"""Attacks below the level of calls: frames, heads, bodies, paths and links."""

import asyncio
import base64
import gzip
import logging
import zlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from gateway.control.request_logger import RequestLogger
from gateway.server.timeouts import ServerTimeouts
from gateway.server.web.pages import file_names
from tests.gateway.server.browser import login_code
from tests.gateway.server.proving import is_let_in, log_in
from tests.gateway.server.served import Served, served

BOMB = bytes(100_000_000)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as server:
        yield server


async def raw_answer(server: Served, request: bytes) -> bytes:
    """Return all bytes until the server closes; the request must end the connection."""
    where = urlsplit(server.address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    async with asyncio.timeout(30):
        with suppress(ConnectionError):
            writer.write(request)
            await writer.drain()
        answer = b""
        with suppress(ConnectionError):
            answer = await reader.read()
    writer.close()
    return answer


def head(server: Served, first: str, *lines: str) -> bytes:
    own = (f"Host: {urlsplit(server.address).netloc}", f"Authorization: {bearer(server)}")
    return ("\r\n".join([first, *own, *lines]) + "\r\n\r\n").encode()


def bearer(server: Served) -> str:
    return f"Bearer {server.secrets['admin']}"


async def test_compressed_frame_is_not_unpacked(server: Served) -> None:
    async with (
        server.session() as session,
        session.ws_connect("/v1/connect", compress=15) as socket,
    ):
        assert socket.compress == 0  # offered but not accepted
    packer = zlib.compressobj(wbits=-15)
    data = packer.compress(BOMB) + packer.flush(zlib.Z_SYNC_FLUSH)
    # FIN and the bit of a compressed text, a length, and a mask of zeros.
    frame = b"\xc1\xff" + len(data).to_bytes(8, "big") + bytes(4) + data
    upgrade = head(
        server, "GET /v1/connect HTTP/1.1", "Upgrade: websocket", "Connection: Upgrade",
        "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}",
        "Sec-WebSocket-Extensions: permessage-deflate",
    )  # fmt: skip
    answer = await raw_answer(server, upgrade + frame)
    assert b" 101 " in answer
    assert b"permessage-deflate" not in answer
    assert b'"value"' not in answer
    assert (await server.call("status"))[0] == 200


async def test_compressed_body_is_not_unpacked_beyond_the_limit(server: Served) -> None:
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    packed = gzip.compress(b'{"a": "' + BOMB + b'"}')
    async with (
        server.session() as session,
        session.post("/v1/calls/status", data=packed, headers=headers) as response,
    ):
        assert response.status in (400, 413)
    assert (await server.call("status"))[0] == 200


@pytest.mark.parametrize(
    "lines",
    [
        ["X-Long: " + "x" * 100_000],
        ["x" * 100_000 + ": 1"],
        [f"X-{n}: {'y' * 1_000}" for n in range(40_000)],
        ["Content-Length: 2", "Transfer-Encoding: chunked"],
        ["Content-Length: 2", "Content-Length: 3"],
        ["Content-Length: -1"],
        ["X-Null: a\x00b"],
        [" X-Folded: 1"],
    ],
    ids=["value", "name", "many", "both lengths", "two lengths", "negative", "null", "folded"],
)
async def test_invalid_or_too_large_head_is_rejected(
    server: Served, lines: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    request = head(server, "POST /v1/calls/status HTTP/1.1", *lines, "Connection: close")
    answer = await raw_answer(server, request + b"{}")
    assert answer == b"" or answer.split(b" ")[1] in (b"400", b"413", b"431")
    assert b'"value"' not in answer
    assert (await server.call("status"))[0] == 200
    assert errors_of(caplog) == []


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"SSH-2.0-OpenSSH_9\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: \xff\r\n\r\n",
        b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /a\x1b[31m HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nbody",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnone",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET\x00 nothing\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n",
    ],
)
async def test_invalid_request_logs_no_traceback(
    server: Served, request_: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    where = urlsplit(server.address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(request_)
    writer.write_eof()
    with suppress(ConnectionError):
        await reader.read()
    writer.close()
    assert (await server.call("status"))[0] == 200
    assert errors_of(caplog) == []


def errors_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return logged errors and tracebacks."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.exc_info or record.levelno >= logging.ERROR
    ]


async def test_connections_without_a_token_do_not_block_others(tmp_path: Path) -> None:
    """Neither silent connections nor connections that use a public route."""
    async with (
        served(tmp_path, max_connections=8) as server,
        server.session() as session,
        session.ws_connect("/v1/connect") as client,
    ):
        where = urlsplit(server.address)
        hello = f"GET /v1/hello HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode()
        idle = []
        for n in range(50):
            reader, writer = await asyncio.open_connection(where.hostname, where.port)
            if n % 2:
                writer.write(hello)
                await reader.readline()
            idle.append((reader, writer))
        assert (await server.call("status"))[0] == 200
        await client.send_json({"id": 1, "call": "status", "arguments": {}})
        assert (await client.receive_json())["id"] == 1
        for _, writer in idle:
            writer.close()


async def test_connections_with_a_role_do_not_block_the_owner(tmp_path: Path) -> None:
    async with served(tmp_path, max_connections=8) as server, AsyncExitStack() as stack:
        headers = {"Authorization": f"Bearer {server.tokens.add('kiosk', ['chat'], 'guest')}"}
        for _ in range(20):
            session = aiohttp.ClientSession(server.address, headers=headers)
            await stack.enter_async_context(session)
            async with session.get("/v1/models") as response:
                assert response.status == 200
        assert (await server.call("status"))[0] == 200


async def test_new_connection_is_rejected_at_the_connection_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, max_connections=8) as server, AsyncExitStack() as stack:
        session = await stack.enter_async_context(server.session())
        for _ in range(8):
            await stack.enter_async_context(session.ws_connect("/v1/connect"))
        for _ in range(2):
            assert (await raw_answer(server, b"")).startswith(b"HTTP/1.1 503 ")
        warnings = [message for message in caplog.messages if "server.max_connections" in message]
        assert len(warnings) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/web/%2e%2e/%2e%2e/tokens.json",
        "/web/..%2f..%2ftokens.json",
        "/web/../../../../../../etc/passwd",
        "/web/..%5c..%5cpages.py",
        "/web/%252e%252e/pages.py",
        "/web/app/main.mjs%00.svg",
        "/web/app/main.mjs%00",
        "/web//etc/passwd",
        "/web/%2fetc%2fpasswd",
        "/web/app/",
        "/web/__init__.py",
        "/%00",
        "/v1/calls/%00",
        "//attacker.example/%2e%2e",
    ],
)
async def test_disguised_path_is_not_served(server: Served, path: str) -> None:
    answer = await raw_answer(server, head(server, f"GET {path} HTTP/1.1", "Connection: close"))
    assert answer.split(b" ")[1] in (b"400", b"404", b"405")
    assert b"root:" not in answer
    assert b"import " not in answer
    assert b"Location:" not in answer


async def test_static_files_have_their_type_and_private_answers_are_not_cached(
    server: Served,
) -> None:
    async with server.session() as session:
        for name in file_names():
            async with session.get(f"/web/{name}") as response:
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                assert response.headers["Content-Type"] != "application/octet-stream"
                assert "default-src 'none'" in response.headers["Content-Security-Policy"]
        private = [
            ("POST", "/v1/calls/status", 200),
            ("POST", "/v1/calls/unknown", 404),
            ("GET", "/v1/calls/status", 405),
            ("POST", "/v1/login-codes", 200),
            ("GET", "/v1/login", 401),
            ("GET", "/v1/models", 200),
            ("GET", "/v1/hello", 200),
            ("GET", "/nothing", 404),
        ]
        for method, path, status in private:
            async with session.request(method, path, json={}) as response:
                assert response.status == status, path
                assert response.headers["Cache-Control"] == "no-store", path
                assert response.headers["X-Content-Type-Options"] == "nosniff", path
    async with server.session(None) as session, session.post("/v1/calls/status") as response:
        assert response.status == 401
        assert response.headers["Cache-Control"] == "no-store"


async def test_link_opened_concurrently_admits_one_client(server: Served) -> None:
    async with server.session() as session:
        code = await login_code(session)

    async def enter() -> bool:
        try:
            return await is_let_in(server.address, await log_in(server.address, code))
        except PermissionError:
            return False

    assert Counter(await asyncio.gather(*(enter() for _ in range(8)))) == {True: 1, False: 7}


async def test_codes_cannot_be_guessed_and_expire(tmp_path: Path) -> None:
    refusals = []
    async with served(tmp_path, timeouts=ServerTimeouts(code_s=0)) as server:
        async with server.session() as session:
            late = await login_code(session)
        for guess in (late, "", "x" * 32, *(f"{late[:-1]}{n}" for n in range(20))):
            with pytest.raises(PermissionError) as refused:
                await log_in(server.address, guess)
            refusals.append(str(refused.value))
    assert refusals[:10] == ["denied"] * 10
    assert set(refusals[11:]) == {"too-many-tries"}


def test_undecodable_body_is_a_client_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Newer Python versions read the body after the answer, where aiohttp reports the error."""
    RequestLogger(logging.getLogger("kore-test")).exception(
        "Unhandled exception", exc_info=web.RequestPayloadError("400")
    )
    assert errors_of(caplog) == []
