"""Stand-ins for an HTTP proxy (CONNECT and absolute addresses) and a SOCKS5 proxy on loopback."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Self
from urllib.parse import urlsplit

_CHUNK_BYTES = 65_536


class _ProxyServer:
    """A proxy that connects every name to the port `target` of this machine.

    `targets` are the addresses that clients requested, `login` is `USER:PASSWORD` if required.
    `status` other than 200 refuses; with 0 the connection ends without a reply.
    """

    def __init__(self, target: int, login: str = "", status: int = 200) -> None:
        self.target = target
        self.login = login
        self.status = status
        self.targets: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._lead(reader, writer)
        finally:
            self._tasks.discard(task)
            await _close(writer)

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    async def _tunnel(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes = b""
    ) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
        there_writer.write(head)
        try:
            await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
        finally:
            await _close(there_writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
    with suppress(OSError):
        writer.write_eof() if writer.can_write_eof() else writer.close()


class HttpProxy(_ProxyServer):
    @property
    def url(self) -> str:
        return f"http://{self.login}{'@' * bool(self.login)}127.0.0.1:{self.port}"

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        self.targets.append(target)
        token = base64.b64encode(self.login.encode())
        if self.login and b"Basic " + token not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        if not self.status:
            return
        if self.status != 200:
            writer.write(f"HTTP/1.1 {self.status} No\r\nContent-Length: 0\r\n\r\n".encode())
            return
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await self._tunnel(reader, writer)
            return
        path = urlsplit(target).path
        await self._tunnel(reader, writer, head.replace(target.encode(), path.encode(), 1))


class SocksProxy(_ProxyServer):
    """SOCKS5 of RFC 1928 with host names, and the login of RFC 1929."""

    @property
    def url(self) -> str:
        return f"socks5://{self.login}{'@' * bool(self.login)}127.0.0.1:{self.port}"

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        methods = await reader.readexactly(count)
        login_method = 2 if self.login else 0
        writer.write(bytes((5, login_method if login_method in methods else 255)))
        if login_method not in methods:
            return
        if self.login and not await self._check_login(reader, writer):
            return
        _, _, _, kind = await reader.readexactly(4)
        read: dict[int, Callable[[], Awaitable[str]]] = {3: lambda: _name(reader)}
        host = await read[kind]() if kind in read else f"address of kind {kind}"
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.targets.append(f"{host}:{port}")
        if not self.status:
            return
        reply = 0 if self.status == 200 else 5
        writer.write(bytes((5, reply, 0, 1, 127, 0, 0, 1, 0, 0)))
        if not reply:
            await self._tunnel(reader, writer)

    async def _check_login(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        await reader.readexactly(1)
        login = f"{await _name(reader)}:{await _name(reader)}"
        writer.write(bytes((1, 0 if login == self.login else 1)))
        return login == self.login


async def _name(reader: asyncio.StreamReader) -> str:
    return (await reader.readexactly((await reader.readexactly(1))[0])).decode()
