"""Control socket: its file, its access checks and its failures."""

import asyncio
import json
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.errors import KoreError
from gateway.control.client import ControlClient
from gateway.control.protocol import REQUEST_LIMIT_BYTES
from gateway.control.server import ControlServer
from gateway.core.errors import ConnectionLost
from gateway.core.messages import InboundMessage, MessageOptions, Sender
from tests.fakes.memory_service import MemoryService

LANE = "cli:local:c"


def message(text: str) -> InboundMessage:
    return InboundMessage(
        "cli", "local", "c", Sender("0"), "e1", text, 1.0, options=MessageOptions(auto=True)
    )


@pytest.fixture
async def owner() -> AsyncIterator[MemoryService]:
    async with MemoryService() as service:
        yield service


async def connect(path: Path) -> ControlClient:
    client = await ControlClient.connect(path)
    assert client is not None
    return client


async def test_connecting_to_a_missing_server_returns_none(tmp_path: Path) -> None:
    assert await ControlClient.connect(tmp_path / "kore.sock") is None


async def test_socket_file_is_private(owner: MemoryService, tmp_path: Path) -> None:
    path = tmp_path / "kore.sock"
    async with ControlServer(owner, path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not path.exists()


async def test_stale_socket_file_is_replaced(owner: MemoryService, tmp_path: Path) -> None:
    path = tmp_path / "kore.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    assert await ControlClient.connect(path) is None
    async with ControlServer(owner, path):
        await connect(path)


async def test_listening_owner_is_not_displaced(owner: MemoryService, tmp_path: Path) -> None:
    path = tmp_path / "kore.sock"
    async with ControlServer(owner, path):
        with pytest.raises(KoreError, match="is already listening"):
            async with ControlServer(owner, path):
                pass
        await connect(path)


async def test_other_file_at_the_socket_path_is_preserved_and_named(
    owner: MemoryService, tmp_path: Path
) -> None:
    path = tmp_path / "kore.sock"
    path.write_text("precious")
    with pytest.raises(KoreError, match="not a socket"):
        async with ControlServer(owner, path):
            pass
    assert path.read_text() == "precious"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
async def test_socket_in_a_deep_folder_is_reachable(owner: MemoryService, tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 20) / ("er" * 20)
    folder.mkdir(parents=True)
    async with ControlServer(owner, folder / "kore.sock"):
        client = await connect(folder / "kore.sock")
        assert (await client.status())["pid"] == 1


async def test_message_arrives_with_its_options(owner: MemoryService, tmp_path: Path) -> None:
    path = tmp_path / "kore.sock"
    async with ControlServer(owner, path):
        await (await connect(path)).submit(message("hi \udcff"))
    assert owner.submitted[0].options == MessageOptions(auto=True)
    assert owner.submitted[0].sender == Sender("0")
    assert owner.submitted[0].content == "hi \ufffd"


async def test_errors_keep_code_and_hint(owner: MemoryService, tmp_path: Path) -> None:
    path = tmp_path / "kore.sock"
    async with ControlServer(owner, path):
        client = await connect(path)
        with pytest.raises(KoreError, match="no message 5") as caught:
            await client.replay(5)
    assert caught.value.code == "error"
    assert caught.value.hint == "kore status lists them"


async def test_oversized_request_is_rejected_with_a_sentence(
    owner: MemoryService, tmp_path: Path
) -> None:
    path = tmp_path / "kore.sock"
    async with ControlServer(owner, path):
        client = await connect(path)
        with pytest.raises(KoreError, match="limited to"):
            await client.submit(message("x" * (REQUEST_LIMIT_BYTES + 1)))
    assert not owner.submitted


async def test_departed_watcher_is_removed(owner: MemoryService, tmp_path: Path) -> None:
    path = tmp_path / "kore.sock"
    async with ControlServer(owner, path):
        client = await connect(path)
        async with client.watch(LANE):
            assert owner.watchers(LANE) == 1
        async with asyncio.timeout(30):
            while owner.watchers(LANE):
                await asyncio.sleep(0.005)


async def test_killed_watcher_is_removed_silently(
    owner: MemoryService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kore.sock"
    body = json.dumps({"lane": LANE}).encode()
    async with ControlServer(owner, path):
        # Closing a socket with unread data resets the connection.
        with socket.socket(socket.AF_UNIX) as killed:
            killed.connect(str(path))
            killed.sendall(
                b"POST /watch HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            async with asyncio.timeout(30):
                while not owner.watchers(LANE):
                    await asyncio.sleep(0.005)
        async with asyncio.timeout(30):
            while owner.watchers(LANE):
                await asyncio.sleep(0.005)
    assert caplog.records == []


async def test_loss_of_the_owner_ends_the_watch_with_an_error(
    owner: MemoryService, tmp_path: Path
) -> None:
    path = tmp_path / "kore.sock"
    async with asyncio.timeout(30):
        async with ControlServer(owner, path):
            client = await connect(path)
            watch = client.watch(LANE)
            events = await watch.__aenter__()
        with pytest.raises(ConnectionLost):
            await anext(events)
        await watch.__aexit__(None, None, None)
        with pytest.raises(ConnectionLost):
            await client.status()


async def test_call_that_is_not_json_is_rejected(owner: MemoryService, tmp_path: Path) -> None:
    path = tmp_path / "kore.sock"
    async with ControlServer(owner, path):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b"POST /submit HTTP/1.0\r\nContent-Length: 3\r\n\r\nhey")
        reply = await reader.read()
        writer.close()
    assert b" 400 " in reply.split(b"\r\n")[0]
    assert b"not JSON" in reply


async def test_request_announced_as_huge_is_not_read(owner: MemoryService, tmp_path: Path) -> None:
    path = tmp_path / "kore.sock"
    async with ControlServer(owner, path):
        reader, writer = await asyncio.open_unix_connection(str(path))
        size = REQUEST_LIMIT_BYTES + 1
        writer.write(f"POST /submit HTTP/1.0\r\nContent-Length: {size}\r\n\r\n".encode())
        async with asyncio.timeout(30):
            reply = await reader.read()
        writer.close()
    assert b"limited to" in reply


async def test_call_of_another_version_is_rejected_in_one_sentence(
    owner: MemoryService, tmp_path: Path
) -> None:
    path = tmp_path / "kore.sock"
    async with ControlServer(owner, path):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b"POST /glimpse HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}")
        async with asyncio.timeout(30):
            reply = await reader.read()
        writer.close()
    assert b" 400 " in reply.split(b"\r\n")[0]
    assert b"it does not know the call 'glimpse'" in reply


async def test_owner_of_another_version_is_reported_in_one_sentence(tmp_path: Path) -> None:
    async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}\n")
        writer.write(b'HTTP/1.0 200 OK\r\n\r\n{"value":{"protocol":1,"pid":1}}\n')
        writer.close()

    path = tmp_path / "kore.sock"
    async with await asyncio.start_unix_server(hello, path):
        with pytest.raises(KoreError, match="the running Kore is a different version") as caught:
            await ControlClient.connect(path)
    assert caught.value.hint == "Restart the gateway."


class Broken(MemoryService):
    async def stop_turn(self, lane: str) -> bool:
        raise ZeroDivisionError(lane)


async def test_bug_in_a_call_does_not_affect_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kore.sock"
    async with Broken() as broken, ControlServer(broken, path):
        client = await connect(path)
        with pytest.raises(KoreError, match="the running Kore failed to handle this request"):
            await client.stop_turn(LANE)
        assert (await client.status())["pid"] == 1
    assert "ZeroDivisionError" in caplog.text


async def test_stop_waits_for_running_calls(tmp_path: Path) -> None:
    class Slow(MemoryService):
        async def stop_turn(self, lane: str) -> bool:
            began.set()
            await may_finish.wait()
            return True

    began, may_finish = asyncio.Event(), asyncio.Event()
    path = tmp_path / "kore.sock"
    async with Slow() as slow, asyncio.timeout(30), asyncio.TaskGroup() as group:
        async with ControlServer(slow, path):
            call = group.create_task((await connect(path)).stop_turn(LANE))
            await began.wait()
            asyncio.get_running_loop().call_soon(may_finish.set)
        assert await call
