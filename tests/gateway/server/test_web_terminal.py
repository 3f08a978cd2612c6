"""Terminal of the page, in Chromium."""

import re
from pathlib import Path
from typing import Any

import pytest

from gateway.config.sections import ServerSection
from tests.gateway.server.browser import NEEDS_CHROMIUM, api, browser_page, log_in
from tests.gateway.server.served import served

pytestmark = NEEDS_CHROMIUM
ROWS = ".terminal .xterm-rows"
FULL = {"server": ServerSection(terminal="full")}


@pytest.fixture(autouse=True)
def _no_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore the shell profile of this machine."""
    monkeypatch.setenv("HOME", str(tmp_path))


async def enter(page: Any, line: str) -> None:
    await page.locator(".terminal .xterm-helper-textarea").focus()
    await page.keyboard.type(line)
    await page.keyboard.press("Enter")


async def expect_row(page: Any, words: str) -> None:
    await api.expect(page.locator(ROWS)).to_contain_text(words)


async def test_shell_runs_in_the_page_and_survives_a_reload(tmp_path: Path) -> None:
    async with served(tmp_path, settings=FULL) as server, browser_page() as page:
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        await log_in(page, server)
        await page.click(".panels >> text=Terminal")
        await page.wait_for_selector("text=Without a sandbox")
        await page.click("text=New terminal")
        await page.wait_for_selector(ROWS)
        await enter(page, "export MINE=here; echo on$((1 + 1))")
        await expect_row(page, "on2")
        # The program gets the size of the window, also after a change.
        await enter(page, "clear; echo one: $(stty size)")
        await api.expect(page.locator(ROWS)).to_contain_text(re.compile(r"one: \d+ \d+"))
        before = await read_size(page, "one")
        await page.set_viewport_size({"width": 700, "height": 500})
        await page.wait_for_timeout(500)
        await enter(page, "echo two: $(stty size)")
        await api.expect(page.locator(ROWS)).to_contain_text(re.compile(r"two: \d+ \d+"))
        assert await read_size(page, "two") != before
        await enter(page, "printf 'red: \\033[31mX\\033[38;2;1;2;3mY\\033[0m\\n'")
        await expect_row(page, "red: XY")
        await page.reload()
        await expect_row(page, "red: XY")
        await enter(page, "echo $MINE-again")
        await expect_row(page, "here-again")
        await enter(page, "exit 3")
        await page.wait_for_selector("text=The shell has ended. (3)")
        await page.click(".terminals >> text=Close")
        await page.wait_for_selector(".terminals:not(:has(.terminal))")
        assert (await server.call("terminal_status"))[1]["terminals"] == []
        assert problems == [], "the policy of the page refuses nothing"


async def read_size(page: Any, name: str) -> str:
    match = re.search(rf"{name}: (\d+ \d+)", await page.locator(ROWS).inner_text())
    assert match is not None
    return match[1]


async def test_terminal_output_can_only_draw(tmp_path: Path) -> None:
    """Clipboard, windows, elements and input stay out of reach; the title is plain text."""
    options = {"permissions": ["clipboard-read", "clipboard-write"]}
    async with served(tmp_path, settings=FULL) as server, browser_page(**options) as page:
        await log_in(page, server)
        await page.evaluate("navigator.clipboard.writeText('mine')")
        attack = server.parts.workspace / "attack"
        attack.write_bytes(
            b"\x1b]52;c;c3RvbGVu\x07"  # the clipboard
            b"\x1b]0;<img src=x onerror=alert(1)>\x07"  # the title
            b"\x1b[21t\x1b]2;touch owned\x07\x1b[21t"  # a report of the title, as if typed
            b"\x1b[8;500;500t\x1b[3;1;1t"  # the window
            b"\x1b]8;;javascript:alert(1)\x07link\x1b]8;;\x07"
            b"<script>alert(2)</script>\x1b]1337;File=inline=1:AAAA\x07\x90\x9d\x1bPq~~\x1b\\\n"
        )
        await page.click(".panels >> text=Terminal")
        await page.click("text=New terminal")
        await page.wait_for_selector(ROWS)
        await enter(page, "cat attack; echo on$((1 + 1))")
        await expect_row(page, "on2")
        await page.click(f"{ROWS} >> text=link", force=True)
        assert await page.evaluate("navigator.clipboard.readText()") == "mine"
        assert await page.locator("img[src=x], .terminal script").count() == 0
        await api.expect(page.locator(".terminal .title")).to_have_text("touch owned")
        assert not (server.parts.workspace / "owned").exists()
        assert len(page.context.pages) == 1


async def test_pasted_text_runs_only_after_confirmation(tmp_path: Path) -> None:
    async with served(tmp_path, settings=FULL) as server, browser_page() as page:
        texts: list[str] = []
        page.remove_listener("dialog", page.on_dialog)

        async def refuse(dialog: Any) -> None:
            texts.append(dialog.message)
            await dialog.dismiss()

        page.on("dialog", refuse)
        await log_in(page, server)
        await page.click(".panels >> text=Terminal")
        await page.click("text=New terminal")
        await page.wait_for_selector(ROWS)
        paste = """text => {
            const data = new DataTransfer()
            data.setData("text/plain", text)
            const area = document.querySelector(".terminal .xterm-helper-textarea")
            area.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }))
        }"""
        # A program that reads lines, without bracketed paste.
        await enter(page, "echo on$((1 + 1)); cat")
        await expect_row(page, "on2")
        await page.evaluate(paste, "first\nsecond\n")
        assert len(texts) == 1
        await page.evaluate(paste, "a\x1b[201~b")
        await expect_row(page, "a[201~b")
        assert len(texts) == 1


async def test_disabled_terminal_explains_how_to_enable_it(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        await page.click(".panels >> text=Terminal")
        await page.wait_for_selector("text=kore config set server.terminal sandbox")
        assert await page.locator("text=New terminal").count() == 0
