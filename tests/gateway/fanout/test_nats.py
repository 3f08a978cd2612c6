"""NATS only: secrets in the address, TLS and limits of the server."""

import asyncio
import logging
import sys
from pathlib import Path

import pytest

from agent.errors import ConfigError
from gateway.fanout.nats import NatsFanout
from gateway.fanout.notify import NotifyFanout
from gateway.fanout.opening import database_id, open_fanout
from gateway.fanout.queued import LinkLost
from tests import postgres_server
from tests.gateway.fanout.buses import KORE_ID, joined
from tests.gateway.parts import wait_until
from tests.gateway.server.certificates import Certificates, needs_openssl
from tests.nats_server import NatsServer, needs_nats

needs_postgres = pytest.mark.skipif(
    postgres_server.programs() is None, reason="PostgreSQL is not installed"
)
TOKEN = "s3cr3t/tok@n"
TOKEN_IN_URL = "s3cr3t%2Ftok%40n"


async def find_id() -> str:
    return KORE_ID


def fanout(url: str) -> NatsFanout:
    return NatsFanout(url, None, find_id=find_id, name="test")


async def assert_it_carries(url: str) -> None:
    async with joined(fanout(url), "front") as stream:
        stream.publish(b"hello")
        await wait_until(lambda: stream.messages == [b"hello"])


@pytest.mark.counterpart("nats-server")
@needs_nats
@pytest.mark.parametrize(
    ("options", "login"),
    [
        (("--auth", TOKEN), TOKEN_IN_URL),
        (("--user", "ann", "--pass", TOKEN), f"ann:{TOKEN_IN_URL}"),
    ],
    ids=["token", "password"],
)
async def test_address_includes_the_secret(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: tuple[str, ...], login: str
) -> None:
    caplog.set_level(logging.DEBUG)
    server = NatsServer(tmp_path, *options)
    server.start()
    try:
        await assert_it_carries(f"nats://{login}@127.0.0.1:{server.port}")
        refused = fanout(f"nats://{login}x@127.0.0.1:{server.port}")
        refusal = f"no connection to nats://127.0.0.1:{server.port} ("
        async with joined(refused):
            await wait_until(lambda: refusal in caplog.text)
    finally:
        server.kill()
    assert "Authorization Violation" in caplog.text
    assert "s3cr3t" not in caplog.text


@pytest.mark.counterpart("nats-server")
@needs_nats
@needs_openssl
async def test_tls_checks_the_certificate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Certificates(tmp_path / "tls")
    files = ("--tlscert", str(made.file("server")), "--tlskey", str(made.key("server")))
    server = NatsServer(tmp_path, "--tls", *files, "--auth", TOKEN)
    server.start()
    url = f"tls://{TOKEN_IN_URL}@127.0.0.1:{server.port}"
    try:
        async with joined(fanout(url)):
            await wait_until(lambda: "certificate verify failed" in caplog.text)
        monkeypatch.setenv("SSL_CERT_FILE", str(made.file("ca")))
        await assert_it_carries(url)
    finally:
        server.kill()


async def test_secret_is_not_sent_without_the_requested_tls(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lines: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # https://docs.nats.io/reference/reference-protocols/nats-protocol#info
        writer.write(b'INFO {"server_id":"S","version":"2.15.1","max_payload":1048576}\r\n')
        lines.append(await reader.read())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, joined(fanout(f"tls://{TOKEN_IN_URL}@127.0.0.1:{port}")):
        await wait_until(lambda: "does not require TLS" in caplog.text and lines)
    assert b"".join(lines) == b""


@pytest.mark.counterpart("nats-server")
@needs_nats
async def test_frames_respect_the_maximum_of_the_server(tmp_path: Path) -> None:
    config = tmp_path / "nats.conf"
    config.write_text("max_payload: 4096\n")
    server = NatsServer(tmp_path, "-c", str(config))
    server.start()
    try:
        async with joined(fanout(server.url), "front") as stream:
            stream.publish(b"a" * 50_000)
            await wait_until(lambda: stream.messages == [b"a" * 50_000])
            # Only messages cut for a server with a larger limit are lost.
            server.kill()
            config.write_text("max_payload: 1024\n")
            stream.publish(b"b" * 3_000)
            server.start()
            await wait_until(lambda: stream.reconnects >= 2)
            stream.publish(b"c" * 3_000)
            await wait_until(lambda: stream.messages[-1:] == [b"c" * 3_000])
    finally:
        server.kill()


@needs_nats
async def test_fanout_waits_for_the_database_that_names_the_subjects(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = 0

    async def find_late() -> str:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise LinkLost("the database is away")
        return KORE_ID

    server = NatsServer(tmp_path)
    server.start()
    try:
        late = NatsFanout(server.url, None, find_id=find_late, name="test")
        async with joined(late, "front") as stream:
            stream.publish(b"hello")
            await wait_until(lambda: stream.messages == [b"hello"])
        assert (attempts, "the database is away" in caplog.text) == (3, True)
    finally:
        server.kill()


@needs_postgres
async def test_database_has_the_same_id_at_each_of_its_addresses() -> None:
    server = postgres_server.server()
    result, other = server.create_database(), server.create_database()
    name = result.partition("@/")[2].partition("?")[0]
    same = f"postgresql:///{name}?host={server.folder}&user=kore"
    ids = [await database_id(address) for address in (result, same, other)]
    assert ids[0] == ids[1] != ids[2]
    assert all(len(id_) == 16 for id_ in ids)


async def test_password_is_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    for address in ("postgresql://ann:s3cr3t@127.0.0.1:1/kore", "postgresql://ann:s3cr3t%zz@h/k"):
        caplog.clear()
        async with joined(NotifyFanout(address, None)):
            await wait_until(lambda: "no connection to postgresql://ann@" in caplog.text)
        assert "s3cr3t" not in caplog.text


def test_nats_is_used_if_configured_and_notify_otherwise() -> None:
    address = "postgresql://kore@/kore"
    assert isinstance(open_fanout(None, address, None, "kore"), NotifyFanout)
    assert isinstance(open_fanout("nats://h", address, None, "kore"), NatsFanout)


def test_nats_requires_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    with pytest.raises(ConfigError, match="nats-py is not installed") as refused:
        open_fanout("nats://h", "postgresql://kore@/kore", None, "kore")
    assert refused.value.hint == "pip install 'kore-assistant[nats]'"
