"""Another machine for tests: a network namespace with its own address. It needs root and `ip`."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager

import pytest

PYTHON = "/usr/bin/python3"
# Passes connections to a Unix socket, which works across network namespaces.
_FORWARDER = """
import asyncio, sys
async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()
async def serve(reader, writer):
    far = await asyncio.open_unix_connection(sys.argv[1])
    await asyncio.gather(copy(reader, far[1]), copy(far[0], writer), return_exceptions=True)
async def main():
    server = await asyncio.start_server(serve, sys.argv[2], int(sys.argv[3]))
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""
_ECHO = """
import socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        with server.accept()[0] as stream:
            stream.sendall(b"heard " + stream.makefile("rb").read())
"""


class OtherMachine:
    """Network namespace at `address`; this machine is at `gateway` for it."""

    def __init__(self) -> None:
        number = os.getpid()
        self._name, self._device = f"kore{number}", f"kore{number}"[:15]
        start = f"10.{200 + number // 250 % 50}.{number % 250}"
        self.gateway, self.address = f"{start}.1", f"{start}.2"
        self.range = f"{start}.0/24"

    def open(self) -> None:
        there = f"{self._device[:13]}-p"
        _ip("netns", "add", self._name)
        _ip("link", "add", self._device, "type", "veth", "peer", "name", there, "netns", self._name)
        _ip("addr", "add", f"{self.gateway}/24", "dev", self._device)
        _ip("link", "set", self._device, "up")
        _ip("-n", self._name, "addr", "add", f"{self.address}/24", "dev", there)
        _ip("-n", self._name, "link", "set", there, "up")

    def close(self) -> None:
        for words in (("link", "del", self._device), ("netns", "del", self._name)):
            subprocess.run(["ip", *words], check=False, capture_output=True)

    def forward(self, socket_path: str, port: int) -> AbstractAsyncContextManager[int]:
        """Let a Unix socket answer at a port of the machine."""
        return _server(self._enter, _FORWARDER, socket_path, self.address, str(port))

    def echo(self, port: int) -> AbstractAsyncContextManager[int]:
        """Answer "heard …" at a port of the machine."""
        return _server(self._enter, _ECHO, self.address, str(port))

    @property
    def _enter(self) -> tuple[str, ...]:
        return "ip", "netns", "exec", self._name


def forward_here(socket_path: str) -> AbstractAsyncContextManager[int]:
    """Let a Unix socket answer at a port of 127.0.0.1, which is yielded."""
    return _server((), _FORWARDER, socket_path, "127.0.0.1", "0")


@asynccontextmanager
async def _server(enter: Sequence[str], program: str, *words: str) -> AsyncIterator[int]:
    """Run a server program and yield its port."""
    process = await asyncio.create_subprocess_exec(
        *enter, PYTHON, "-c", program, *words, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


@contextmanager
def other_machine() -> Iterator[OtherMachine]:
    """Yield another machine, or skip the test if this user may not create one."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("another machine needs root and the program ip")
    machine = OtherMachine()
    try:
        machine.open()
    except subprocess.CalledProcessError as exc:
        machine.close()
        pytest.skip(f"a network namespace cannot be created: {exc.stderr.decode().strip()}")
    try:
        yield machine
    finally:
        machine.close()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
