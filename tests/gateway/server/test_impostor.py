"""Attacks by another user of the machine: reading the process list, taking the port after Kore."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

from gateway.server.tokens import OWNER, TokenFile
from tests import fork_server
from tests.fakes.model import ModelServer
from tests.gateway.cli.verbs.private_browser import PrivateBrowser
from tests.gateway.server.browser import (
    IDLE,
    NEEDS_CHROMIUM,
    browser_context,
    browser_page,
    log_in,
    say,
)
from tests.gateway.server.processes import KEY, Machine, free_port
from tests.gateway.server.proving import Impostor
from tests.gateway.server.served import served

pytestmark = NEEDS_CHROMIUM

# Everything that scripts of the page, or of an impostor at its address, can read of the key.
_KEY = """async () => {
  const opening = indexedDB.open("kore")
  await new Promise((resolve) => (opening.onsuccess = resolve))
  const asking = opening.result.transaction("keys").objectStore("keys").get("key")
  await new Promise((resolve) => (asking.onsuccess = resolve))
  const { key } = asking.result
  const exports = ["raw", "jwk"].map((format) => crypto.subtle.exportKey(format, key))
  const ends = (await Promise.allSettled(exports)).map((one) => one.status)
  return [ends, key.extractable, JSON.stringify(localStorage), document.cookie]
}"""


async def test_open_page_reveals_nothing_to_an_impostor(tmp_path: Path) -> None:
    async with ModelServer(api_key=KEY) as model, browser_page() as page:
        machine, port = Machine(tmp_path, model), free_port()
        words = ("--listen-addr", f"127.0.0.1:{port}")
        token = TokenFile(machine.home / "tokens.json").add("typed", ("admin",))
        async with machine.serving(*words) as process:
            await page.goto(f"http://127.0.0.1:{port}")
            await page.fill(".login input", token)
            await page.press(".login input", "Enter")
            await page.wait_for_selector(".composer textarea")
            await say(page, "one")
            await page.wait_for_selector("article.kore:has-text('one')")
            await page.wait_for_selector(IDLE)
            process.send_signal(signal.SIGKILL)
            await process.wait()
        async with Impostor(port) as impostor:
            await page.wait_for_selector(".offline:has-text('Another program answers')")
            await page.fill(".composer textarea", "private words")
            await page.press(".composer textarea", "Enter")
            await page.wait_for_selector("article:has-text('private words')")
            seen = len(impostor.records)
            async with asyncio.timeout(30):
                while len(impostor.records) < seen + 2:
                    await asyncio.sleep(0.05)
        stored = json.loads((machine.home / "tokens.json").read_text())["tokens"]
        secrets = [token, *stored, "private words", '"proof"', "Cookie", "Authorization"]
        text = "\n".join(impostor.records)
        assert [word for word in secrets if word in text] == []
        # Kore runs again: the page connects and sends the queued message once.
        async with machine.serving(*words):
            await page.wait_for_selector(".workbench:not(:has(.offline))", timeout=60_000)
            await page.wait_for_selector("article.kore:has-text('private words')")


async def test_page_scripts_cannot_read_the_key(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        stored = server.tokens.list()[-1]
        assert stored.name.startswith("browser-")
        exported, is_extractable, storage, cookies = await page.evaluate(_KEY)
        assert exported == ["rejected", "rejected"]
        assert is_extractable is False
        assert cookies == ""
        keys = json.loads((tmp_path / "tokens.json").read_text())["tokens"]
        assert not [key for key in keys if key in storage]
        # A reload needs no new login, and Log out ends the token.
        await page.reload()
        await page.wait_for_selector(".composer textarea")
        await page.click("text=Log out")
        await page.wait_for_selector(".login")
        assert stored not in server.tokens.list()
        await page.reload()
        await page.wait_for_selector(".login")


async def test_servers_of_one_host_have_separate_keys(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    async with served(first) as stream, served(second) as other, browser_context() as context:
        page: Any = await context.new_page()
        await log_in(page, stream)
        await page.goto(other.address)
        await page.wait_for_selector(".login")
        assert await context.cookies() == []


async def test_web_link_is_not_in_the_process_list(tmp_path: Path) -> None:
    """The browser is started with the name of a private file, which leads to the link."""
    browser = PrivateBrowser(tmp_path)
    async with ModelServer(api_key=KEY) as model, browser_page() as page:
        machine = Machine(tmp_path, model)
        machine.home.chmod(0o700)
        environ = {"PATH": os.environ["PATH"], "HOME": str(machine.home)}
        environ |= {"KORE_HOME": str(machine.home), **browser.environ}
        kore = await fork_server.start_piped(
            ["web", "--listen-addr", "auto"], cwd=tmp_path, env=environ
        )
        try:
            async with asyncio.timeout(60):
                link = (await kore.stdout.readline()).decode().strip()
                while not browser.is_started:
                    await asyncio.sleep(0.05)
            code = link.rpartition("=")[2]
            assert len(code) > 20
            await page.goto(browser.check(code))
            await page.wait_for_selector(".composer textarea")
            assert page.url.startswith("http://127.0.0.1:")
            (browsers,) = TokenFile(machine.home / "tokens.json").list()
            assert browsers.parent == OWNER
        finally:
            kore.send_signal(signal.SIGTERM)
            await kore.wait()
        assert not (machine.home / "login.html").exists()
        assert not (machine.home / "server.json").exists()
