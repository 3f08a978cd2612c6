"""Login to an MCP server over HTTP: storage, renewal and secrecy of tokens."""

import logging
import os
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.mcp.revocation import revoke
from agent.security.redaction import MARK, Redactor
from gateway.store.cipher import Cipher
from tests.agent.mcp.login_server import Browser, log_in, servers, whoami
from tests.fakes.oauth_mcp import OauthMcpServer

pytest.importorskip("mcp", reason="needs the extra mcp")


async def test_missing_login_is_explained(tmp_path: Path) -> None:
    async with OauthMcpServer() as server, servers(server, tmp_path) as running:
        with pytest.raises(ToolError, match="requires a login: `kore mcp login g`"):
            await running.refresh("g")
        assert server.registrations == []


async def test_login_survives_a_restart(tmp_path: Path) -> None:
    async with OauthMcpServer() as server:
        await log_in(server, tmp_path)
        async with servers(server, tmp_path) as running:
            assert (await whoami(running)).startswith("you")
        assert server.grants == ["authorization_code"]
        assert len(server.registrations) == 1


async def test_expired_token_is_renewed_after_a_restart(tmp_path: Path) -> None:
    async with OauthMcpServer() as server:
        server.expires_in = -10
        await log_in(server, tmp_path)
        server.access.clear()
        server.expires_in = 3600
        async with servers(server, tmp_path) as running:
            assert (await whoami(running)).startswith("you")
        assert server.grants[-1] == "refresh_token"


async def test_revoked_token_is_renewed_for_the_next_call(tmp_path: Path) -> None:
    async with OauthMcpServer() as server:
        await log_in(server, tmp_path)
        async with servers(server, tmp_path) as running:
            await whoami(running)
            server.access.clear()
            assert (await whoami(running)).startswith("you")
        assert server.grants[-1] == "refresh_token"


async def test_failed_renewal_requires_a_new_login(tmp_path: Path) -> None:
    async with OauthMcpServer() as server:
        server.issues_refresh = False
        await log_in(server, tmp_path)
        async with servers(server, tmp_path) as running:
            await whoami(running)
            server.access.clear()
            with pytest.raises(ToolError, match="kore mcp login g"):
                await whoami(running)


async def test_login_in_another_process_takes_effect(tmp_path: Path) -> None:
    async with OauthMcpServer() as server:
        await log_in(server, tmp_path)
        async with servers(server, tmp_path) as running:
            await whoami(running)
            await log_in(server, tmp_path)
            assert (await whoami(running)).endswith("2")


async def test_registration_is_reused_for_the_same_redirect_uri(tmp_path: Path) -> None:
    async with OauthMcpServer() as server:
        await log_in(server, tmp_path)
        await log_in(server, tmp_path)
        assert len(server.registrations) == 1
        async with servers(server, tmp_path, Browser(port=42000)) as running:
            await running.refresh("g")
        assert len(server.registrations) == 2


@pytest.mark.parametrize("change", [("state=", "state=x"), ("iss=http", "iss=https")])
async def test_answer_of_another_login_is_rejected(tmp_path: Path, change: tuple[str, str]) -> None:
    async with (
        OauthMcpServer() as server,
        servers(server, tmp_path, Browser(change=change)) as running,
    ):
        with pytest.raises(ToolError):
            await running.refresh("g")
        assert server.grants == []


async def test_remote_server_cannot_redirect_to_this_machine(tmp_path: Path) -> None:
    dialog = Browser()
    async with (
        OauthMcpServer() as server,
        # The same machine under another name.
        servers(server, tmp_path, dialog, host="0.0.0.0") as running,
    ):
        with pytest.raises(ToolError, match=r"Its login leads to http://127\.0\.0\.1"):
            await running.refresh("g")
        assert (dialog.urls, server.registrations) == ([], [])


async def test_tokens_are_redacted_and_not_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with OauthMcpServer() as server:
        await log_in(server, tmp_path)
        redactor = Redactor()
        async with servers(server, tmp_path, redactor=redactor) as running:
            assert redactor.clean(await whoami(running)) == f"you, with {MARK}"
        secrets = server.secrets
    assert not [text for text in secrets if text in caplog.text]


async def test_login_file_is_encrypted_and_private(tmp_path: Path) -> None:
    sealer = Cipher(os.urandom(32), "KEY")
    async with OauthMcpServer() as server:
        await log_in(server, tmp_path, sealer)
        (file,) = tmp_path.glob("*/login")
        assert file.stat().st_mode & 0o777 == 0o600
        assert b"access" not in file.read_bytes()
        async with servers(server, tmp_path, sealer=sealer) as running:
            assert (await whoami(running)).startswith("you")
        async with servers(server, tmp_path, sealer=Cipher(os.urandom(32), "KEY")) as running:
            with pytest.raises(ToolError, match="kore mcp login g"):
                await running.refresh("g")


@pytest.mark.parametrize(
    "address",
    [
        *("http://127.0.0.1/revoke", "https://127.0.0.1/revoke", "http://example.org/revoke"),
        *("https://127.0.0.2/", "https://127.1/", "https://2130706433/", "https://0x7f.1/"),
        *("https://0.0.0.0/", "https://localhost./", "https://[::1]/", "https://[::]/"),
        *("https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:2]/", "https://10.0.0.5/"),
        *("https://169.254.169.254/", "https://[fe80::1]/", "https://", "https://["),
    ],
)
async def test_tokens_are_not_sent_to_an_unsafe_address(address: str) -> None:
    login = {"metadata": {"revocation_endpoint": address}, "tokens": {"access_token": "t"}}
    with pytest.raises(ToolError, match="not safe"):
        await revoke("https://example.org/mcp", login)
