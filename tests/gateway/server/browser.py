"""Web page of a server in a headless Chromium."""

import asyncio
import json
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from gateway.server.tokens import TokenFile

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page

    from tests.gateway.server.processes import Machine
    from tests.gateway.server.served import Served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
api = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
# The tests of a worker share a browser, each with an empty profile (`chromium` in conftest.py).
NEEDS_CHROMIUM = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.usefixtures("chromium"),
]
# Containers have neither a sandbox nor a GPU.
_ARGUMENTS = ("--no-sandbox", "--disable-gpu")
IDLE = ".workbench:not(:has(.stop)):not(:has(.offline))"
# A loaded machine takes more than 20 s to reload a page.
_TIMEOUT_MS = 60_000
_shared: "dict[asyncio.AbstractEventLoop, Browser]" = {}


@asynccontextmanager
async def running_browser() -> "AsyncIterator[Browser]":
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def sharing_browser() -> AsyncIterator[None]:
    """Share one browser among all profiles opened on this event loop, until the block ends."""
    loop = asyncio.get_running_loop()
    async with running_browser() as browser:
        _shared[loop] = browser
        try:
            yield
        finally:
            del _shared[loop]


@asynccontextmanager
async def browser_context(**options: Any) -> "AsyncIterator[BrowserContext]":
    """Open an empty profile in the shared browser, or in a new browser if there is none."""
    async with AsyncExitStack() as stack:
        browser = _shared.get(asyncio.get_running_loop())
        if browser is None or not browser.is_connected():
            browser = await stack.enter_async_context(running_browser())
        context = await browser.new_context(**options)
        stack.push_async_callback(context.close)
        context.set_default_timeout(_TIMEOUT_MS)
        yield context


@asynccontextmanager
async def browser_page(**options: Any) -> AsyncIterator[Any]:
    """Open a page that fails the test on any script error or dialog."""
    async with browser_context(**options) as context:
        page: Any = await context.new_page()
        failures: list[str] = []
        page.on("pageerror", lambda error: failures.append(str(error)))
        # A test that expects a dialog removes this handler.
        page.on_dialog = lambda dialog: failures.append(f"dialog: {dialog.message}")
        page.on("dialog", page.on_dialog)
        yield page
        assert failures == [], failures


async def log_in(page: "Page", server: "Served") -> None:
    """Log in by a link as printed by `kore web`."""
    async with server.session() as session:
        code = await login_code(session)
    await page.goto(f"{server.address}/#login={code}")
    await page.wait_for_selector(".composer textarea")
    assert code not in page.url


async def log_in_by_token(page: "Page", machine: "Machine") -> None:
    """Log in to the server of this machine by typing a token."""
    token = TokenFile(machine.home / "tokens.json").add("typed", ("admin",))
    await page.goto(json.loads((machine.home / "server.json").read_text())["web"])
    await page.fill(".login input", token)
    await page.press(".login input", "Enter")
    await page.wait_for_selector(".composer textarea")


async def login_code(session: aiohttp.ClientSession) -> str:
    """Return a one-time login code; the client's token needs every right."""
    async with session.post("/v1/login-codes", json={}) as response:
        return str((await response.json())["value"]["code"])


async def say(page: "Page", text: str) -> None:
    await page.fill(".composer textarea", text)
    # Enter has no effect while the previous message is being sent, even after its answer arrives.
    await page.wait_for_selector(".composer .send:enabled")
    await page.press(".composer textarea", "Enter")


def session_of(page: "Page") -> str | None:
    """Return the session in the address of the page."""
    match = re.search(r"#(\d{8}_\w+)$", page.url)
    return match[1] if match else None
