"""Clients that prove a key step by step, and servers without the key."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from agent.security.key_proof import KeyClaim, KeyProof, answer, key_of
from gateway.control.protocol import PROTOCOL


class Opened:
    """WebSocket of a client; `opening` is the server's first frame."""

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse, opening: Any, key: bytes, claim: KeyClaim
    ) -> None:
        self.socket = socket
        self.opening = opening
        self.key = key
        self.claim = claim

    async def prove(self, host: str) -> Any:
        """Answer the opening and return the next frame, None if the connection is closed."""
        await self.send_proof(host)
        return await frame_of(self.socket)

    async def send_proof(self, host: str) -> None:
        await self.socket.send_json(answer(self.key, host, self.claim, self.opening))


@asynccontextmanager
async def opened(address: str, path: str, key: bytes, host: str = "") -> AsyncIterator[Opened]:
    """Open a connection and read the server's first frame; `host` replaces the Host header."""
    claim = KeyClaim.new(key)
    headers = {"Host": host} if host else {}
    async with (
        aiohttp.ClientSession(address, headers=headers) as session,
        session.ws_connect(path, protocols=claim.protocols) as socket,
    ):
        yield Opened(socket, await frame_of(socket), key, claim)


async def log_in(address: str, secret: str) -> bytes:
    """Log in by a code or token as the page does, and return the browser's key.

    Raises `PermissionError`.
    """
    async with opened(address, "/v1/login", key_of(secret)) as browser:
        if "error" in browser.opening:
            raise PermissionError(browser.opening["error"]["code"])
        host = host_of(address)
        value = await browser.prove(host)
        if value is None or "error" in value:
            raise PermissionError
        proof = KeyProof(browser.key, host, browser.claim, browser.opening["nonce"])
        return proof.derived_key()


async def log_out(address: str, key: bytes) -> None:
    async with opened(address, "/v1/logout", key) as browser:
        assert await browser.prove(host_of(address)) is None


async def is_let_in(address: str, key: bytes) -> bool:
    """Return whether a call over a proven connection is answered."""
    async with opened(address, "/v1/connect", key) as client:
        if client.opening is None or "error" in client.opening:
            return False
        await client.send_proof(host_of(address))
        await client.socket.send_json({"id": 1, "call": "status"})
        frame = await frame_of(client.socket)
        return frame is not None and "value" in frame


async def frame_of(socket: aiohttp.ClientWebSocketResponse) -> Any:
    """Return the next frame, or None at the end."""
    message = await socket.receive(timeout=20)
    return message.json() if message.type is aiohttp.WSMsgType.TEXT else None


def host_of(address: str) -> str:
    return URL(address).host_port_subcomponent or ""


class Impostor:
    """Program on the port of a Kore that has ended.

    It answers every request as well as it can, and stores everything it receives in `records`.
    """

    def __init__(self, port: int, opening: Any = None) -> None:
        self.records: list[str] = []
        self._port = port
        self._opening = opening or {"nonce": "0" * 32, "proof": "0" * 64}

    async def __aenter__(self) -> "Impostor":
        app = web.Application()
        app.router.add_get("/v1/hello", self._hello)
        app.router.add_get("/v1/{rest:.*}", self._talk)
        app.router.add_route("*", "/{rest:.*}", self._note)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def _hear(self, request: web.Request, text: str = "") -> None:
        self.records.append(f"{request.method} {request.path} {dict(request.headers)} {text}")

    async def _hello(self, request: web.Request) -> web.Response:
        self._hear(request)
        return web.json_response({"protocol": PROTOCOL})

    async def _note(self, request: web.Request) -> web.Response:
        self._hear(request, await request.text())
        return web.json_response({"value": {}})

    async def _talk(self, request: web.Request) -> web.WebSocketResponse:
        self._hear(request)
        socket = web.WebSocketResponse(protocols=("kore",))
        await socket.prepare(request)
        await socket.send_json(self._opening)
        async for message in socket:
            self._hear(request, str(message.data))
            await socket.send_json({"id": 1, "value": {}})
        return socket
