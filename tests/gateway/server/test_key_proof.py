"""Key proofs by both sides of a connection, under attack by another user of the machine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import aiohttp
import pytest

from agent.errors import ConfigError
from agent.security.key_proof import KeyClaim, KeyMismatch, KeyProof, answer, key_of
from gateway.core.errors import ConnectionLost
from gateway.server.remote_service import check_client_address, opened_service
from kore.client import Client, Disconnected
from tests.fakes.cutting_proxy import CuttingProxy
from tests.gateway.server.processes import free_port
from tests.gateway.server.proving import (
    Impostor,
    frame_of,
    host_of,
    is_let_in,
    log_in,
    opened,
)
from tests.gateway.server.served import Served, served
from tests.gateway.server.typescript_client import CLIENT
from tests.node import FLAGS, node

SECRET = "kore_secret-of-a-program"
PROGRAM = """
const { Connection } = await import(process.argv[1])
const [address, token] = process.argv.slice(2)
new Connection({ address, token, onState: (state) => { console.log(state); process.exit() } })
"""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as server:
        yield server


@pytest.mark.parametrize(
    "proof", ["", "0" * 64, "server", "replayed", None, 7, [], {"proof": "x"}, "\ud800"]
)
async def test_wrong_proof_is_rejected(server: Served, proof: object) -> None:
    key, host = key_of(server.secrets["admin"]), host_of(server.address)
    async with opened(server.address, "/v1/connect", key) as earlier:
        replayed = answer(key, host, earlier.claim, earlier.opening)["proof"]
    async with opened(server.address, "/v1/connect", key) as client:
        values = {"server": client.opening["proof"], "replayed": replayed}
        sent = values.get(proof, proof) if isinstance(proof, str) else proof
        await client.socket.send_json({"proof": sent})
        await client.socket.send_json({"id": 1, "call": "status"})
        assert await frame_of(client.socket) is None
        assert client.socket.close_code == 4401


async def test_call_before_the_proof_is_not_answered(server: Served) -> None:
    key = key_of(server.secrets["admin"])
    async with opened(server.address, "/v1/connect", key) as client:
        await client.socket.send_json({"id": 1, "call": "status"})
        assert await frame_of(client.socket) is None


async def test_connections_without_a_proof_do_not_block_the_owner(tmp_path: Path) -> None:
    """Key ids are public: 40 connections send an id without a proof, and 20 is the limit."""
    async with served(tmp_path, max_connections=20) as server, AsyncExitStack() as stack:
        key = key_of(server.secrets["admin"])
        for _ in range(40):
            await stack.enter_async_context(opened(server.address, "/v1/connect", key))
        async with Client(server.address, server.secrets["admin"], patience_s=0) as owner:
            await owner.call("list_sessions")
            for _ in range(40):
                await stack.enter_async_context(opened(server.address, "/v1/connect", key))
            await owner.call("list_sessions")


async def test_flood_of_connections_without_a_proof_does_not_block_the_owner(
    server: Served,
) -> None:
    key = key_of(server.secrets["admin"])

    async def flood() -> None:
        async with AsyncExitStack() as stack:
            while True:
                with suppress(aiohttp.ClientError, OSError):
                    await stack.enter_async_context(opened(server.address, "/v1/connect", key))

    floods = [asyncio.create_task(flood()) for _ in range(4)]
    try:
        for _ in range(10):
            async with Client(server.address, server.secrets["admin"], patience_s=0) as owner:
                await owner.call("list_sessions")
    finally:
        for task in floods:
            task.cancel()
        await asyncio.wait(floods)


async def test_wrong_proofs_count_as_wrong_tokens(server: Served) -> None:
    key = key_of(server.secrets["admin"])
    for _ in range(10):
        async with opened(server.address, "/v1/connect", key) as client:
            await client.socket.send_json({"proof": "0" * 64})
            assert await frame_of(client.socket) is None
    async with opened(server.address, "/v1/connect", key_of("guess")) as client:
        assert client.opening["error"]["code"] == "too-many-tries"
    # A valid proof always works, since all users of a machine have the same address.
    assert await is_let_in(server.address, key)


async def test_server_nonces_are_unique(server: Served) -> None:
    nonces = set()
    for _ in range(5):
        async with opened(server.address, "/v1/connect", key_of(server.secrets["read"])) as client:
            nonces.add(client.opening["nonce"])
    assert len(nonces) == 5


@pytest.mark.parametrize("forges_host", [False, True])
async def test_relay_at_another_port_gets_no_connection(server: Served, forges_host: bool) -> None:
    """The relay forwards a client's frames from its own port and answers as Kore would."""
    key, dialled = key_of(server.secrets["admin"]), f"127.0.0.1:{free_port()}"
    claimed = host_of(server.address) if forges_host else dialled
    async with opened(server.address, "/v1/connect", key, claimed) as client:
        if not forges_host:
            assert client.opening["error"]["code"] == "denied"
            assert "server.hosts" in client.opening["error"]["hint"]
            return
        # The client signs the address it dialled, so it rejects the opening.
        with pytest.raises(KeyMismatch):
            answer(key, dialled, client.claim, client.opening)


async def test_configured_tunnel_may_use_another_port(tmp_path: Path) -> None:
    port = free_port()
    async with (
        served(tmp_path, hosts=[f"127.0.0.1:{port}"]) as server,
        CuttingProxy(int(server.address.rpartition(":")[2])) as proxy,
    ):
        async with Client(f"http://127.0.0.1:{proxy.port}", server.secrets["read"]) as stranger:
            with pytest.raises(Exception, match="this server listens at"):
                await stranger.call("status")
        key = key_of(server.secrets["read"])
        async with opened(server.address, "/v1/connect", key, f"127.0.0.1:{port}") as client:
            assert "proof" in client.opening


async def test_python_clients_reveal_nothing_to_an_impostor() -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    async with Impostor(port) as impostor:
        with pytest.raises(ConnectionLost, match="another program answers"):
            async with opened_service(address, SECRET):
                pass
        async with Client(address, SECRET, patience_s=0) as client:
            with pytest.raises(Disconnected, match="another program answers"):
                await client.send(None, "private words")
    _check_nothing_was_told(impostor, SECRET)
    assert not any("private words" in record for record in impostor.records)


async def test_node_program_reveals_nothing_to_an_impostor() -> None:
    port = free_port()
    async with Impostor(port) as impostor:
        words = (node(), *FLAGS, "-e", PROGRAM)
        program = await asyncio.create_subprocess_exec(
            *words,
            *(str(CLIENT), f"http://127.0.0.1:{port}", SECRET),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await program.communicate()
    assert out == b"foreign\n"
    _check_nothing_was_told(impostor, SECRET)


def _check_nothing_was_told(impostor: Impostor, secret: str) -> None:
    assert impostor.records
    for record in impostor.records:
        assert secret not in record
        assert key_of(secret).hex() not in record
        assert "Authorization" not in record
        assert '"proof"' not in record


async def test_recorded_proof_cannot_be_replayed(server: Served) -> None:
    """Another connection replays the first frames of a client once Kore is back."""
    secret = server.secrets["admin"]
    claim = KeyClaim.new(key_of(secret))
    async with (
        aiohttp.ClientSession(server.address) as session,
        session.ws_connect("/v1/connect", protocols=claim.protocols) as socket,
    ):
        assert "proof" in await socket.receive_json()
        await socket.send_json({"id": 1, "call": "status"})
        assert await frame_of(socket) is None


async def test_browser_key_is_never_transmitted(server: Served) -> None:
    """Both sides derive the key from the code or the token, and HTTP does not accept the key as a
    token.
    """
    secret = server.secrets["chat"]
    key = await log_in(server.address, secret)
    assert await is_let_in(server.address, key)
    assert key != await log_in(server.address, secret)
    headers = {"Authorization": f"Bearer {key.hex()}"}
    async with (
        aiohttp.ClientSession(server.address, headers=headers) as session,
        session.post("/v1/calls/status", json={}) as response,
    ):
        assert response.status == 401


async def test_proof_depends_on_every_exchanged_value() -> None:
    claim = KeyClaim("0" * 32, "1" * 32)
    proof = KeyProof(b"k", "h", claim, "2" * 32)
    others = [
        KeyProof(b"l", "h", claim, "2" * 32),
        KeyProof(b"k", "i", claim, "2" * 32),
        KeyProof(b"k", "h", KeyClaim("3" * 32, "1" * 32), "2" * 32),
        KeyProof(b"k", "h", KeyClaim("0" * 32, "3" * 32), "2" * 32),
        KeyProof(b"k", "h", claim, "3" * 32),
    ]
    texts = [*proof.opening().values(), proof.derived_key().hex()]
    assert not any(value in texts[1:] for other in others for value in other.opening().values())
    own = answer(b"k", "h", claim, proof.opening())
    assert proof.is_proven_by(own)
    assert not any(other.is_proven_by(own) for other in others)


@pytest.mark.parametrize(
    "address",
    ["http://kore.example.org", "http://192.168.1.5:8790", "http://127.0.0.1.example.org:8790"],
)
def test_other_machines_require_https(address: str) -> None:
    with pytest.raises(ConfigError, match="needs https"):
        check_client_address(address)
    with pytest.raises(ValueError, match="needs https"):
        Client(address, SECRET)


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:8790", "http://localhost:1", "http://[::1]:2", "https://a.example"],
)
def test_client_may_attach_to_its_own_machine_and_over_https(address: str) -> None:
    check_client_address(address)
    Client(address, SECRET)
