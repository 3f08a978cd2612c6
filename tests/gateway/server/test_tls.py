"""TLS 1.3 at addresses reachable by others, with optional client certificates."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agent.errors import ConfigError, KoreError
from gateway.core.errors import ConnectionLost
from gateway.server.listener import ListenAddress, ServerOptions, TlsFiles, serve
from gateway.server.remote_service import ClientTls, opened_service
from gateway.server.timeouts import ServerTimeouts
from gateway.server.tokens import TokenFile
from tests.gateway.parts import running
from tests.gateway.server.certificates import Certificates, needs_openssl


@asynccontextmanager
async def served(folder: Path, tls: TlsFiles) -> AsyncIterator[tuple[str, str]]:
    tokens = TokenFile(folder / "tokens.json")
    options = ServerOptions(ListenAddress(port=0), tls)
    async with running(folder, []) as parts, serve(parts.service, tokens, options) as access:
        yield access.web, tokens.add("remote", ("admin",))


@needs_openssl
async def test_only_clients_that_trust_the_ca_connect(tmp_path: Path) -> None:
    own = Certificates(tmp_path / "tls")
    files = TlsFiles(own.file("server"), own.key("server"))
    async with served(tmp_path, files) as (address, token):
        assert address.startswith("https://")
        async with opened_service(address, token, ClientTls(str(own.file("ca")))) as service:
            assert (await service.status())["pid"]
        with pytest.raises(KoreError, match="is not trusted"):
            async with opened_service(address, token):
                pass
        old = ClientTls(str(own.file("ca"))).context()
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
        reader_error = await _handshake_error(address, old)
        assert isinstance(reader_error, OSError)


async def _handshake_error(address: str, context: ssl.SSLContext) -> Exception | None:

    try:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", urlsplit(address).port, ssl=context, server_hostname="localhost"
        )
    except (OSError, ssl.SSLError) as exc:
        return exc
    writer.close()
    return None


@needs_openssl
async def test_client_certificate_is_required_if_configured(tmp_path: Path) -> None:
    own = Certificates(tmp_path / "tls")
    files = TlsFiles(own.file("server"), own.key("server"), own.file("ca"))
    async with served(tmp_path, files) as (address, token):
        shown = ClientTls(str(own.file("ca")), str(own.file("client")), str(own.key("client")))
        async with opened_service(address, token, shown) as service:
            assert (await service.status())["pid"]
        with pytest.raises(ConnectionLost):
            async with opened_service(address, token, ClientTls(str(own.file("ca")))):
                pass


@pytest.mark.parametrize("text", ["0.0.0.0:8790", "[::]:8790", "192.0.2.1:1", "example.org:1"])
def test_remote_clients_need_tls(text: str) -> None:
    address = ListenAddress.parse(text)
    with pytest.raises(ConfigError, match="needs TLS"):
        ServerOptions(address).check()
    ServerOptions(address, insecure=True).check()
    ServerOptions(address, TlsFiles(Path("/a"), Path("/b"))).check()


@pytest.mark.parametrize(
    "text", ["127.0.0.1:0", "localhost:1", "[::1]:8790", "127.9.9.9:1", "auto"]
)
def test_loopback_clients_need_no_tls(text: str) -> None:
    ServerOptions(ListenAddress.parse(text)).check()


@pytest.mark.parametrize("text", ["", "8790", ":8790", "127.0.0.1", "a:70000", "unix:x", "a:-1"])
def test_invalid_address_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError, match="expected"):
        ListenAddress.parse(text)


def test_unusable_certificate_is_reported(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("no certificate")
    for name in ("cert.pem", "missing.pem"):
        with pytest.raises(ConfigError, match="TLS certificate"):
            TlsFiles(tmp_path / name, tmp_path / "cert.pem").context()


@needs_openssl
async def test_unfinished_handshakes_do_not_block_others(tmp_path: Path) -> None:
    own = Certificates(tmp_path / "tls")
    files = TlsFiles(own.file("server"), own.key("server"))
    async with served(tmp_path, files) as (address, token):
        where = urlsplit(address)
        silent = [await asyncio.open_connection(where.hostname, where.port) for _ in range(200)]
        for _, writer in silent[::2]:
            writer.write(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a TLS ClientHello
        async with opened_service(address, token, ClientTls(str(own.file("ca")))) as service:
            assert (await service.status())["pid"]
        for _, writer in silent:
            writer.close()


@needs_openssl
async def test_stalled_handshakes_are_ended_and_count_for_the_limit(tmp_path: Path) -> None:
    own = Certificates(tmp_path / "tls")
    files = TlsFiles(own.file("server"), own.key("server"))
    trust = ClientTls(str(own.file("ca")))
    tokens = TokenFile(tmp_path / "tokens.json")
    timeouts = ServerTimeouts(handshake_s=0.5)
    options = ServerOptions(ListenAddress(port=0), files, max_connections=8, timeouts=timeouts)
    async with running(tmp_path, []) as parts, serve(parts.service, tokens, options) as access:
        address, token = access.web, tokens.add("remote", ("admin",))
        async with opened_service(address, token, trust) as service:
            assert (await service.status())["pid"]
            port = urlsplit(address).port
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            for _, writer in silent:
                writer.write(b"\x16\x03\x01")
            # The oldest handshakes are dropped, also for a client with a token; the others time
            # out.
            async with opened_service(address, token, trust) as another:
                assert (await another.status())["pid"]
            assert [await _read_to_end(reader) for reader, _ in silent] == [b""] * 20
            for _, writer in silent:
                writer.close()
            assert (await service.status())["pid"]
        async with opened_service(address, token, trust) as service:
            assert (await service.status())["pid"]


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""
