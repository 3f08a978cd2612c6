"""Notifications of the page while the person looks elsewhere."""

import json
from pathlib import Path
from typing import Any

from agent.providers.scripted import EchoProvider
from agent.types import assistant
from gateway.config.sections import ScreensSection
from tests.gateway.parts import tool_call
from tests.gateway.server.browser import NEEDS_CHROMIUM, api, browser_page, log_in, say
from tests.gateway.server.served import served

pytestmark = NEEDS_CHROMIUM

BELL = "header button[aria-pressed]"
# A headless browser has no notifications of its own, and its page is always visible.
STAND_IN = """
window.asked = 0
window.notified = []
window.isAway = false
window.Notification = class {
  static permission = "default"
  static async requestPermission() {
    window.asked += 1
    return (window.Notification.permission = "granted")
  }
  constructor(title, options) {
    window.notified.push(`${title}: ${options.body}`)
    document.documentElement.dataset.notified = window.notified.join()
  }
  close() {}
}
Object.defineProperty(document, "hidden", { get: () => window.isAway })
"""


async def leave(page: Any) -> None:
    await page.evaluate("window.isAway = true")


async def come_back(page: Any) -> None:
    await page.evaluate(
        "window.isAway = false; document.dispatchEvent(new Event('visibilitychange'))"
    )


async def test_question_notifies_a_person_who_looks_elsewhere(tmp_path: Path) -> None:
    script = [assistant("", (tool_call("1", "exec", command="touch a"),))]
    async with served(tmp_path, script) as server, browser_page() as page:
        await page.add_init_script(STAND_IN)
        await log_in(page, server)
        assert await page.evaluate("window.asked") == 0
        await page.click(BELL)
        await page.wait_for_selector("header button[aria-pressed=true]")
        assert await page.evaluate("window.asked") == 1
        await leave(page)
        await say(page, "go")
        await page.wait_for_selector("html[data-notified^='Kore asks something']", state="attached")
        await api.expect(page).to_have_title("? go · Kore")
        await come_back(page)
        await api.expect(page).to_have_title("go · Kore")
        assert await page.evaluate("window.notified.length") == 1


async def test_question_of_a_subagent_in_the_background_notifies(tmp_path: Path) -> None:
    asking = f"!tool exec {json.dumps({'command': 'touch a'})}"
    order = {"subagent_type": "general", "description": "look", "prompt": asking}
    async with served(tmp_path, EchoProvider()) as server, browser_page() as page:
        await page.add_init_script(STAND_IN)
        await log_in(page, server)
        await page.click(BELL)
        await page.wait_for_selector("header button[aria-pressed=true]")
        await leave(page)
        await say(page, f"!tool task {json.dumps({**order, 'background': True})}")
        await page.wait_for_selector("html[data-notified^='Kore asks something']", state="attached")
        assert await page.evaluate("window.notified.length") == 1


async def test_turn_beyond_the_limit_marks_the_title_without_a_permission(tmp_path: Path) -> None:
    settings = {"screens": ScreensSection(notify_after_s=0)}
    async with (
        served(tmp_path, ["done"], settings=settings) as server,
        browser_page() as page,
    ):
        await page.add_init_script(STAND_IN)
        await log_in(page, server)
        await leave(page)
        await say(page, "go")
        await api.expect(page).to_have_title("• go · Kore")
        assert await page.evaluate("[window.asked, window.notified.length]") == [0, 0]


async def test_setting_disables_notifications(tmp_path: Path) -> None:
    settings = {"screens": ScreensSection(notify_after_s=None)}
    async with (
        served(tmp_path, ["done"], settings=settings) as server,
        browser_page() as page,
    ):
        await page.add_init_script(STAND_IN)
        await log_in(page, server)
        await leave(page)
        await say(page, "go")
        await page.wait_for_selector("article.kore:not(.draft) >> text=done")
        assert not (await page.title()).startswith("• ")
