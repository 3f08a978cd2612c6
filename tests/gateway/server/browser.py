"""Kore's page in Chromium."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.gateway.server.served import Served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
api = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@asynccontextmanager
async def browser_page(**options: Any) -> AsyncIterator[Any]:
    """A page that fails the test when anything on it fails."""
    async with api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        context = await browser.new_context(**options)
        page = await context.new_page()
        page.set_default_timeout(20_000)
        failures: list[str] = []
        page.on("pageerror", lambda error: failures.append(str(error)))
        # A test that expects a dialog takes this away.
        page.on_dialog = lambda dialog: failures.append(f"dialog: {dialog.message}")
        page.on("dialog", page.on_dialog)
        page.failures = failures
        try:
            yield page
            assert failures == [], failures
        finally:
            await browser.close()


async def log_in(page: Any, server: Served) -> None:
    async with server.session() as session, session.post("/v1/login-codes", json={}) as response:
        code = (await response.json())["value"]["code"]
    await page.goto(f"{server.address}/#login={code}")
    await page.wait_for_selector(".composer textarea")
    assert code not in page.url


async def say(page: Any, text: str) -> None:
    await page.fill(".composer textarea", text)
    await page.press(".composer textarea", "Enter")
