"""The goal of a conversation, in the browser."""

from pathlib import Path

from agent.providers.scripted import EchoProvider
from tests.gateway.server.browser import NEEDS_CHROMIUM, browser_page, log_in, say
from tests.gateway.server.served import served

pytestmark = NEEDS_CHROMIUM


async def test_goal_and_its_state_are_shown_until_it_is_removed(tmp_path: Path) -> None:
    async with served(tmp_path, EchoProvider()) as server, browser_page() as page:
        await log_in(page, server)
        await say(page, "/goal all <i>tests</i> pass")
        await page.wait_for_selector(".goal >> text=all <i>tests</i> pass")
        # The model gives no verdict.
        await page.wait_for_selector(".goal >> text=paused · 1/20")
        await page.wait_for_selector("text=the model gave no verdict on the goal")
        await page.reload()
        await page.wait_for_selector(".goal >> text=paused · 1/20")
        await say(page, "/goal clear")
        await page.wait_for_selector("text=The goal is removed.")
        await page.wait_for_selector(".goal", state="detached")
