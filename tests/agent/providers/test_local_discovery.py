"""Discovery of local model servers, with invalid answers on their ports."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agent.providers import local_discovery
from agent.providers.local_discovery import LocalServer, discover_local_servers

HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n"


@asynccontextmanager
async def answering(answer: bytes, *, endless: bool = False) -> AsyncIterator[int]:
    """Return the port of a server that sends this answer once, or without end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
            while endless:
                writer.write(b" " * 65_536)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def ollama_models(port: int) -> list[str]:
    """Return the models of Ollama on this port as `vendor/model`."""
    servers = await discover_local_servers((("ollama", port),))
    return [name for server in servers for name in server.names]


async def test_ollama_models_are_listed_in_server_order() -> None:
    async with answering(HEAD + b'{"models": [{"name": "qwen3:8b"}, {"name": "gemma"}]}') as port:
        assert await ollama_models(port) == ["ollama/qwen3:8b", "ollama/gemma"]


@pytest.mark.parametrize(
    "answer",
    [b"", b"220 mail ready\r\n", HEAD + b"{", HEAD + b'{"models": 5}', HEAD + b"[" * 200_000],
    ids=["nothing", "another program", "cut off", "another shape", "deep"],
)
async def test_other_response_is_not_a_list(answer: bytes) -> None:
    async with answering(answer) as port:
        assert await ollama_models(port) == []


async def test_endless_response_is_abandoned() -> None:
    async with answering(HEAD, endless=True) as port, asyncio.timeout(30):
        assert await ollama_models(port) == []


async def test_servers_are_recognized_by_their_response_without_embedding_models() -> None:
    listed = b'{"data": [{"id": "qwen3"}, {"id": "text-embedding-nomic"}]}'
    async with (
        answering(HEAD + b'{"models": []}') as ollama,
        answering(HEAD + listed) as studio,
        answering(b"SSH-2.0-OpenSSH_9\r\n") as other,
    ):
        usual = (("ollama", ollama), ("lmstudio", studio), ("vllm", other))
        assert await discover_local_servers(usual) == [
            LocalServer("ollama", ollama, ()),
            LocalServer("lmstudio", studio, ("qwen3",)),
        ]


def test_usual_ports_are_those_of_the_vendors_without_keys() -> None:
    ports = dict(local_discovery.USUAL)
    assert ports == {"ollama": 11434, "lmstudio": 1234, "llamacpp": 8080, "vllm": 8000}


# Listens as another user, like a program that another person has started.
SERVER = """
import os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
family = socket.AF_INET6 if ":" in sys.argv[2] else socket.AF_INET
server = socket.create_server((sys.argv[2], int(sys.argv[3])), family=family)
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    connection.recv(65536)
    connection.sendall(sys.argv[4].encode())
    connection.close()
"""
LISTED = HEAD + b'{"models": [{"name": "qwen3:8b"}]}'


@asynccontextmanager
async def answering_as(uid: int, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[int]:
    """Return the port of Ollama that this user has started."""
    words = [str(uid), host, str(port), LISTED.decode()]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SERVER, *words, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        yield int(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@needs_root
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_server_of_another_person_is_not_used(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with answering_as(4321, host) as port:
        assert await ollama_models(port) == []
        assert f"port {port} is not used" in caplog.text
        assert "uid 4321" in caplog.text
        assert "agent.model to ollama/MODEL" in caplog.text


@needs_root
async def test_other_person_at_the_same_port_makes_a_name_ambiguous() -> None:
    # "localhost" may lead to either address.
    async with answering(LISTED) as port, answering_as(4321, "::1", port):
        assert await ollama_models(port) == []


@needs_root
async def test_server_of_a_system_account_is_used() -> None:
    async with answering_as(998) as port:
        assert await ollama_models(port) == ["ollama/qwen3:8b"]
