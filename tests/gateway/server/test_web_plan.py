"""Choices after a plan in the browser."""

from pathlib import Path

from agent.providers.scripted import ScriptedProvider
from tests.gateway.server.browser import (
    IDLE,
    NEEDS_CHROMIUM,
    api,
    browser_page,
    log_in,
    say,
    session_of,
)
from tests.gateway.server.served import served

pytestmark = NEEDS_CHROMIUM

CHOICES = ".plan button"
MODE = ".composer select[aria-label=Mode]"


async def test_choice_after_a_plan_survives_a_reload(tmp_path: Path) -> None:
    provider = ScriptedProvider(["# Plan\n\n1. Change it.", "Built."])
    async with served(tmp_path, provider) as server, browser_page() as page:
        await log_in(page, server)
        await page.select_option(MODE, "plan")
        await say(page, "plan it")
        await page.wait_for_selector(CHOICES)
        await page.reload()
        await page.wait_for_selector(CHOICES)
        assert await page.locator(CHOICES).all_inner_texts() == [
            "build, editing freely",
            "build, asking",
            "in a fresh conversation",
            "keep planning",
        ]
        await page.click(f"{CHOICES} >> text=build, editing freely")
        await page.wait_for_selector("article.kore:not(.draft) >> text=Built.")
        await page.wait_for_selector(IDLE)
        await api.expect(page.locator(CHOICES)).to_have_count(0)
        await api.expect(page.locator(MODE)).to_have_value("accept-edits")
    assert "permission mode accept-edits" in str(provider.requests[-1].messages[-1].content)


async def test_fresh_conversation_for_a_plan_is_opened(tmp_path: Path) -> None:
    provider = ScriptedProvider(["# Plan\n\n1. Change it.", "Built."])
    async with served(tmp_path, provider) as server, browser_page() as page:
        await log_in(page, server)
        await page.select_option(MODE, "plan")
        await say(page, "plan it")
        await page.wait_for_selector(CHOICES)
        planned = session_of(page)
        await page.click(f"{CHOICES} >> text=in a fresh conversation")
        await page.wait_for_selector("article.kore:not(.draft) >> text=Built.")
        assert session_of(page) != planned
        await api.expect(page.locator(MODE)).to_have_value("ask")
    assert len(provider.requests[-1].messages) == 1


async def test_plan_kept_for_later_offers_no_choices(tmp_path: Path) -> None:
    async with served(tmp_path, ["# Plan\n\n1. Change it."]) as server, browser_page() as page:
        await log_in(page, server)
        await page.select_option(MODE, "plan")
        await say(page, "plan it")
        await page.click(f"{CHOICES} >> text=keep planning")
        await page.wait_for_selector("text=Still in plan mode")
        await api.expect(page.locator(CHOICES)).to_have_count(0)
        assert await page.input_value(MODE) == "plan"


async def test_mode_of_the_session_is_shown_after_a_reload_and_a_command(tmp_path: Path) -> None:
    async with served(tmp_path, ["# Plan\n\n1. Change it."]) as server, browser_page() as page:
        await log_in(page, server)
        await page.select_option(MODE, "plan")
        await say(page, "plan it")
        await page.wait_for_selector(CHOICES)
        await page.reload()
        await page.wait_for_selector(CHOICES)
        await api.expect(page.locator(MODE)).to_have_value("plan")
        await page.select_option(MODE, "auto")
        await say(page, "/mode accept-edits")
        await api.expect(page.locator(MODE)).to_have_value("accept-edits")
        assert await server.parts.service.session_mode(session_of(page)) == "accept-edits"
