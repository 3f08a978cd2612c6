"""`kore mcp login` and `logout`, with a browser that returns, or a pasted address."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest

from agent.security.redaction import MARK
from tests.fakes.model import ModelServer
from tests.fakes.model_script import reply_with_call
from tests.fakes.oauth_mcp import OauthMcpServer, open_page
from tests.gateway.cli.kore import kore
from tests.gateway.cli.verbs.private_browser import PrivateBrowser

pytest.importorskip("mcp", reason="needs the extra mcp")
PROGRAM = Path(sys.executable).with_name("kore")


@asynccontextmanager
async def logging_in(
    home: Path, browser: PrivateBrowser | None = None
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run `kore mcp login g`, and yield its process and the link that it shows."""
    environ = {**os.environ, "KORE_HOME": str(home), "LANG": "C.UTF-8"}
    process = await asyncio.create_subprocess_exec(
        *(str(PROGRAM), "mcp", "login", "g", *([] if browser else ["--no-browser"])),
        env=environ | (browser.environ if browser else {}),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            while not (line := (await process.stdout.readline()).decode()).startswith("http"):
                assert line, (await process.stderr.read()).decode() if process.stderr else ""
        yield process, line.strip()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@asynccontextmanager
async def configured(home: Path) -> AsyncIterator[OauthMcpServer]:
    async with OauthMcpServer() as server:
        servers = {"g": {"url": f"{server.url}/mcp"}}
        (home / "config.json").write_text(json.dumps({"mcp_servers": servers}))
        yield server


async def ends(process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(60):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return (out + err).decode()


async def test_login_link_is_not_in_the_process_list(tmp_path: Path) -> None:
    """A person who knows its state could complete the login with their own account."""
    home, browser = tmp_path / "home", PrivateBrowser(tmp_path)
    home.mkdir(0o700)
    async with configured(home), logging_in(home, browser) as (_, link):
        async with asyncio.timeout(30):
            while not browser.is_started:
                await asyncio.sleep(0.02)
        browser.check(parse_qs(urlsplit(link).query)["state"][0])


async def test_browser_completes_the_login(tmp_path: Path) -> None:
    async with configured(tmp_path) as server:
        failed = await asyncio.to_thread(kore, "mcp", "test", "g", home=tmp_path)
        assert "requires a login: `kore mcp login g`" in failed.stderr
        async with logging_in(tmp_path) as (process, link):
            address = await open_page(link)
            async with aiohttp.ClientSession() as browser:
                wrong = address.replace("state=", "state=x")
                async with browser.get(wrong) as response:
                    assert response.status == 400
                async with browser.get(address) as response:
                    assert (response.status, "logged in" in await response.text()) == (200, True)
            words = await ends(process)
        assert "logged in to g: 1 tools" in words
        tested = await asyncio.to_thread(kore, "mcp", "test", "g", home=tmp_path)
        assert "whoami" in tested.stdout, tested.stderr
        output = words + tested.stdout + tested.stderr
        assert not [secret for secret in server.secrets if secret in output]
        out = await asyncio.to_thread(kore, "mcp", "logout", "g", home=tmp_path)
        assert "logged out of g" in out.stdout
        again = await asyncio.to_thread(kore, "mcp", "test", "g", home=tmp_path)
        assert "requires a login" in again.stderr


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/revoke", "the server has revoked the tokens"),
        pytest.param(
            "/mcp",
            "did not revoke the tokens: it answered with status 401",
            marks=pytest.mark.slow,
        ),
        pytest.param("", "the server cannot revoke tokens", marks=pytest.mark.slow),
    ],
)
async def test_logout_revokes_tokens_if_supported(tmp_path: Path, address: str, words: str) -> None:
    async with configured(tmp_path) as server:
        server.revocation = address and f"{server.url}{address}"
        async with logging_in(tmp_path) as (process, link):
            async with aiohttp.ClientSession() as browser, browser.get(link) as response:
                assert response.status == 200
            await ends(process)
        assert server.access
        out = await asyncio.to_thread(kore, "mcp", "logout", "g", home=tmp_path)
        assert "logged out of g" in out.stdout
        assert words in out.stdout
        assert not [secret for secret in server.secrets if secret in out.stdout + out.stderr]
        assert bool(server.access | server.refresh) is (address != "/revoke")
        assert not list(tmp_path.rglob("login"))


async def test_address_can_be_pasted(tmp_path: Path) -> None:
    async with configured(tmp_path), logging_in(tmp_path) as (process, link):
        address = await open_page(link)
        assert process.stdin is not None
        process.stdin.write(b"http://127.0.0.1/callback?code=1&state=2\n")
        await process.stdin.drain()
        assert process.stderr is not None
        async with asyncio.timeout(20):
            line = (await process.stderr.readline()).decode()
        assert "does not belong to this login" in line
        process.stdin.write(f"{address}\n".encode())
        await process.stdin.drain()
        assert "logged in to g" in await ends(process)


async def test_agent_uses_the_login_and_hides_its_secrets(
    tmp_path: Path, model_server: ModelServer
) -> None:
    home = tmp_path / "kore"
    home.mkdir()
    async with configured(home) as server:
        config = json.loads((home / "config.json").read_text())
        config["mcp_servers"]["g"]["allow"] = ["*"]
        entry = {"model_name": "m", "model": "openai/m", "api_base": model_server.base_url}
        config |= {
            "model_list": [{**entry, "api_key": "k"}],
            "agent": {"model": "m"},
            "security": {"sandbox": "none"},
            "logging": {"level": "debug"},
        }
        (home / "config.json").write_text(json.dumps(config))
        async with logging_in(home) as (process, link):
            async with aiohttp.ClientSession() as browser, browser.get(link) as response:
                assert response.status == 200
            await ends(process)
        model_server.script(reply_with_call("mcp__g__whoami"), "done")
        run = await asyncio.to_thread(kore, "agent", "-m", "who am I?", home=home)
        assert run.returncode == 0, run.stderr
        result = model_server.requests[-1].body["messages"][-1]
        assert f"you, with {MARK}" in json.dumps(result, ensure_ascii=False)
        assert server.grants == ["authorization_code"]
        output = (run.stdout + run.stderr).encode()
        files = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
        (login,) = home.glob("mcp/*/login")
        assert files.pop(login)
        for secret in (text.encode() for text in server.secrets):
            assert secret not in output
            assert not [path for path, data in files.items() if secret in data]


def test_server_with_a_command_needs_no_login(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"mcp_servers": {"g": {"command": "true"}}}')
    failed = kore("mcp", "login", "g", home=tmp_path)
    assert (failed.returncode, "needs no login" in failed.stderr) == (1, True)
