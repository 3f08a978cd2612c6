"""Browser keys: their owners, their expiry, and their effect on other keys."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agent.errors import KoreError
from agent.security.key_proof import key_of
from gateway.server.login import LOGINS
from gateway.server.tokens import BROWSER_LIFETIME_S, MAX_BROWSERS, OWNER, TokenFile
from tests.gateway.server.browser import login_code
from tests.gateway.server.proving import frame_of, host_of, is_let_in, log_in, opened
from tests.gateway.server.served import Served, served

HOST = "127.0.0.1:8790"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as server:
        yield server


@pytest.mark.parametrize("ending", ["token", "code"])
async def test_browser_logins_end_with_their_token(server: Served, ending: str) -> None:
    secret = server.tokens.add("lent", ("admin",))
    if ending == "code":
        server.secrets["admin"] = secret
        async with server.session() as session:
            secret = await login_code(session)
    key = await log_in(server.address, secret)
    assert await is_let_in(server.address, key)
    async with opened(server.address, "/v1/connect", key) as client:
        await client.send_proof(host_of(server.address))
        server.tokens.revoke("lent")
        # Open connections end, too.
        assert await frame_of(client.socket) is None
    assert not await is_let_in(server.address, key)
    assert not any(token.name.startswith("browser-") for token in server.tokens.list())


async def test_code_of_a_revoked_token_is_rejected(server: Served) -> None:
    server.secrets["admin"] = server.tokens.add("lent", ("admin",))
    async with server.session() as session:
        code = await login_code(session)
    server.tokens.revoke("lent")
    with pytest.raises(PermissionError):
        await log_in(server.address, code)


async def test_browser_has_the_scopes_of_its_token_and_cannot_admit_another(server: Served) -> None:
    key = await log_in(server.address, server.secrets["read"])
    (browser,) = (token for token in server.tokens.list() if token.parent is not None)
    assert browser.scopes == {"read"}
    assert browser.parent == "read"
    async with opened(server.address, "/v1/login", key) as again:
        value = await again.prove(host_of(server.address))
    assert value["error"]["code"] == "denied"


def test_browser_login_expires_after_30_days(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    key = key_of("x")
    browser = tokens.add_browser(key, None, HOST)
    file = tmp_path / "tokens.json"
    file.write_text(
        file.read_text().replace(str(browser.created_at), str(time.time() - BROWSER_LIFETIME_S - 1))
    )
    assert tokens.list() == ()
    other = TokenFile(tmp_path / "tokens.json")
    other.add_browser(key_of("y"), None, HOST)
    assert len(other.list()) == 1
    assert file.read_text().count("browser-") == 1


async def test_logins_of_one_token_do_not_displace_another(server: Served) -> None:
    own = await log_in(server.address, server.secrets["admin"])
    refused = 0
    for _ in range(MAX_BROWSERS + 15):
        try:
            last = await log_in(server.address, server.secrets["read"])
        except PermissionError:
            refused += 1
    assert refused >= MAX_BROWSERS + 15 - LOGINS.burst - 5
    assert await is_let_in(server.address, own)
    assert await is_let_in(server.address, last)
    readers = [token for token in server.tokens.list() if token.parent == "read"]
    assert len(readers) <= MAX_BROWSERS


def test_owner_is_never_locked_out(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    secrets = [tokens.add(f"t{n}", ("read",)) for n in range(10)]
    for secret in secrets:
        parent = tokens.find(secret)
        assert parent is not None
        for n in range(MAX_BROWSERS + 3):
            tokens.add_browser(key_of(f"{secret} {n}"), parent, HOST)
    assert len(tokens.list()) == 10 * (MAX_BROWSERS + 1)
    tokens.add("another", ("admin",))
    assert tokens.add_browser(key_of("owner"), None, HOST).parent == OWNER


def test_oldest_browser_of_a_token_is_removed(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    names = [tokens.add_browser(key_of(f"{n}"), None, HOST).name for n in range(MAX_BROWSERS + 2)]
    assert [token.name for token in tokens.list()] == names[2:]


def test_browser_names_are_reserved_and_expired_browsers_do_not_count(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path / "tokens.json")
    with pytest.raises(KoreError, match="are for browsers"):
        tokens.add("browser-x", ("chat",))
    secret = tokens.add("mine", ("admin",))
    file = tmp_path / "tokens.json"
    for name in ("browser-0123abcd", "local-programs"):
        file.write_text(file.read_text().replace('"mine"', f'"{name}"'))
        assert TokenFile(file).find(secret) is None
        file.write_text(file.read_text().replace(f'"{name}"', '"mine"'))
    assert TokenFile(file).find(secret) is not None
