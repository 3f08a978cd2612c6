"""Error messages on the page, which never lose typed text."""

from pathlib import Path

from tests.gateway.server.browser import (
    NEEDS_CHROMIUM,
    browser_page,
    log_in,
    login_code,
    say,
)
from tests.gateway.server.proving import log_in as prove_login
from tests.gateway.server.served import served

pytestmark = NEEDS_CHROMIUM


async def test_used_link_is_reported(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        async with server.session() as session:
            code = await login_code(session)
        await prove_login(server.address, code)
        await page.goto(f"{server.address}/#login={code}")
        await page.wait_for_selector(".login [role=alert]:has-text('was used before')")
        assert await page.inner_text(".login [role=alert] code") == "kore web"
        assert code not in page.url


async def test_forbidden_panel_is_explained(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await page.goto(server.address)
        await page.fill(".login input", server.secrets["read"])
        await page.press(".login input", "Enter")
        await page.wait_for_selector(".composer textarea")
        await page.click("text=Audit log")
        await page.wait_for_selector(".panel [role=alert]:has-text('the scope admin')")
        assert not await page.is_visible("text=Connecting …")
        # The error does not carry over to the next panel.
        await page.click("text=Status")
        await page.wait_for_selector(".panel .facts th:has-text('Version')")
        assert not await page.is_visible(".panel [role=alert]")


async def test_invalid_time_keeps_the_input(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        await page.click("text=Schedule")
        await page.fill("[aria-label=When]", "soonish")
        await page.fill("[aria-label=What]", "water the plants")
        await page.click("button:has-text('Add')")
        await page.wait_for_selector(".toast:has-text('soonish')")
        assert await page.input_value("[aria-label=What]") == "water the plants"
        await page.fill("[aria-label=When]", "every weekday at 8")
        await page.click("button:has-text('Add')")
        await page.wait_for_selector(".cards >> text=water the plants")
        await page.wait_for_function(
            "document.querySelector('[aria-label=What]').value === ''"
            " && document.querySelector('[aria-label=When]').value === ''"
        )
        # A message disappears with the panel that it belongs to.
        await page.wait_for_selector(".toast")
        await page.click("text=Status")
        await page.wait_for_selector(".toast", state="detached", timeout=2_000)


async def test_search_without_hits_is_reported(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        await say(page, "hello")
        await page.wait_for_selector("article.kore:not(.draft) >> text=re: hello")
        await page.fill(".sidebar input[type=search]", "zzzqqq")
        await page.wait_for_selector(".sidebar li:has-text('Nothing was found.')")
        await page.fill(".sidebar input[type=search]", "hello")
        await page.wait_for_selector(".sidebar .snippet:has-text('hello')")
        assert not await page.is_visible("text=Nothing was found.")
