"""Accessibility of every screen: axe-core (npm), and use by keyboard alone."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.types import Message, Text, Thinking, assistant
from tests.gateway.parts import tool_call
from tests.gateway.server.browser import IDLE, NEEDS_CHROMIUM, browser_page, log_in, say
from tests.gateway.server.served import served

pytest.importorskip("playwright", reason="playwright is not installed")
pytestmark = NEEDS_CHROMIUM

PANELS = (
    *("status", "costs", "schedule", "memory", "files"),
    *("plugins", "people", "permissions", "policy", "config"),
    *("terminal", "logs", "audit"),
)
WIDTHS = ((1280, 800), (390, 780))
_TEXT = """\
# A heading

A **paragraph** with `code`, [a link](https://example.org) and ~~more~~.

> A quote

```python
# A comment
def f(x: int) -> str:
    return "text" + str(x * 2.5)
```

| left | right |
|---|---|
| 1 | 2 |

1. one
2. two
"""
_RUN_AXE = """
async () => (await axe.run(document, { resultTypes: ['violations'] })).violations
  .filter(one => ['serious', 'critical'].includes(one.impact))
  .flatMap(one => one.nodes.map(node => `${one.id}: ${node.html} ${node.failureSummary}`))
"""


def axe_file() -> Path:
    """Return the file of axe-core, which `npm install axe-core` puts next to the `.bin` folder."""
    folders = [
        Path(part) for part in os.environ["PATH"].split(os.pathsep) if part.endswith("/.bin")
    ]
    for folder in folders:
        file = folder.parent / "axe-core" / "axe.min.js"
        if file.exists():
            return file
    pytest.skip("axe-core is not installed (npm install axe-core)")


class Examination:
    """Findings of axe-core on each screen, in both widths and both color schemes."""

    def __init__(self, page: Any, source: str) -> None:
        self.page, self._source = page, source
        self.findings: list[str] = []
        self.count = 0

    async def examine(self, screen: str, widths: Any = WIDTHS) -> None:
        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(self._source)
        for width, height in widths:
            await self.page.set_viewport_size({"width": width, "height": height})
            for scheme in ("light", "dark"):
                await self.page.emulate_media(color_scheme=scheme)
                self.count += 1
                self.findings += [
                    f"{screen}, {width} px, {scheme}: {item}"
                    for item in await self.page.evaluate(_RUN_AXE)
                ]
        await self.page.set_viewport_size({"width": WIDTHS[0][0], "height": WIDTHS[0][1]})


@asynccontextmanager
async def examination(tmp_path: Path, script: Any = None) -> AsyncIterator[Any]:
    source = axe_file().read_text("utf-8")
    # The page's content policy blocks external scripts.
    async with (
        served(tmp_path, script) as server,
        browser_page(bypass_csp=True, reduced_motion="reduce") as page,
    ):
        examined = Examination(page, source)
        yield server, page, examined
        assert examined.findings == []


async def test_conversations_have_no_serious_finding(tmp_path: Path) -> None:
    write = tool_call("1", "write_file", path="a.txt", content="one\ntwo\n")
    edit = tool_call("2", "edit_file", path="a.txt", old_string="one", new_string="three")
    fail = tool_call("3", "exec", command="echo nothing; false")
    script = [
        Message("assistant", (Thinking("I think."), Text(_TEXT)), ()),
        *(assistant("", (call,)) for call in (write, edit, fail)),
        "Done.",
        assistant("I must ask.", (tool_call("4", "exec", command="touch b.txt\n" * 60),)),
        "Done again.",
    ]
    async with examination(tmp_path, script) as (server, page, examined):
        await page.goto(server.address)
        await page.wait_for_selector(".login")
        await check_that_faults_are_found(examined)
        await examined.examine("login")
        await page.fill(".login input", "kore_wrong")
        await page.press(".login input", "Enter")
        await page.wait_for_selector(".login [role=alert]")
        await examined.examine("a refused token")
        await log_in(page, server)
        await examined.examine("no conversation")
        await say(page, "hello")
        await page.wait_for_selector(".hljs-comment")
        await page.click(".thoughts summary")
        await examined.examine("thoughts and code")
        await say(page, "work")
        await answer_all(page, "Done.")
        await page.evaluate("document.querySelectorAll('.call').forEach(one => one.open = true)")
        await page.wait_for_selector(".call.bad")
        await page.wait_for_selector(".diff .new")
        await examined.examine("calls")
        await say(page, "ask")
        await page.wait_for_selector(".approval")
        await examined.examine("a question")
        await page.set_viewport_size({"width": 390, "height": 780})
        await page.click("header .menu")
        await examined.examine("the menu", WIDTHS[1:])
        await page.fill(".sidebar input[type=search]", "hello")
        await page.wait_for_selector(".sidebar .snippet")
        await examined.examine("search", WIDTHS[:1])
        assert examined.count == 4 * 6 + 2 + 2


async def test_panels_have_no_serious_finding(tmp_path: Path) -> None:
    async with examination(tmp_path) as (server, page, examined):
        (server.parts.workspace / "notes.txt").write_text("words")
        (server.parts.workspace / "folder").mkdir()
        job = {"key": "1", "when": "tomorrow 9:00", "text": "call"}
        assert (await server.call("add_job", job=job))[0] == 200
        await log_in(page, server)
        await say(page, "hello")
        await page.wait_for_selector("article.kore")
        for name in PANELS:
            await page.goto(f"{server.address}/#{name}")
            await page.reload()
            await page.wait_for_selector(".panel:not(:has-text('Connecting …')) h2")
            if name == "files":
                await page.click(".tree >> text=notes.txt")
                await page.wait_for_selector(".editor .cm-content")
            await examined.examine(name)
        # A toast message.
        await page.goto(f"{server.address}/#people")
        await page.reload()
        await page.fill(".panel input", "WRONG")
        await page.press(".panel input", "Enter")
        await page.wait_for_selector(".toast")
        await examined.examine("a message in passing", WIDTHS[:1])
        assert examined.count == 4 * len(PANELS) + 2


async def check_that_faults_are_found(examined: Examination) -> None:
    """Check that a button without a name is reported in all four variants."""
    await examined.page.evaluate("document.body.append(document.createElement('button'))")
    await examined.examine("a bad page")
    assert sum("button-name" in finding for finding in examined.findings) == 4
    examined.findings, examined.count = [], 0
    await examined.page.evaluate("document.body.lastElementChild.remove()")


async def answer_all(page: Any, last: str) -> None:
    """Allow each request until the answer appears."""
    end = page.locator(f"article.kore >> text={last}")
    result = page.locator(".approval .answer.main")
    while not await end.count():
        await end.or_(result).first.wait_for()
        if await result.count():
            await page.wait_for_timeout(600)
            number = await page.inner_text(".approval h3")
            await result.click()
            await page.wait_for_function(
                "n => document.querySelector('.approval h3')?.innerText !== n", arg=number
            )
    await page.wait_for_selector(IDLE)


# Name and visibility of the focused element; the label represents a hidden field.
_FOCUS = """
() => {
  const one = document.activeElement
  const words = label => (label.querySelector('span.unseen') ?? label).innerText
  const shown = one.matches('.unseen') ? one.closest('label') : one
  const style = getComputedStyle(shown)
  const box = shown.getBoundingClientRect()
  const labels = [...(one.labels ?? [])].map(words).join(' ')
  return {
    name: (one.ariaLabel || labels || one.innerText || one.placeholder || one.tagName).trim(),
    isSeen: one !== document.body && style.outlineStyle !== 'none'
      && parseFloat(style.outlineWidth) >= 1 && box.width > 0 && box.bottom > 0,
  }
}
"""


async def focused(page: Any) -> str:
    """Return the name of the focused element, which must be visible."""
    focus = await page.evaluate(_FOCUS)
    assert focus["isSeen"], focus
    return str(focus["name"])


async def tab_to(page: Any, name: str, key: str = "Tab") -> list[str]:
    """Return the names of the elements on the way, each of which must be visible when focused."""
    names: list[str] = []
    while len(names) < 40:
        await page.keyboard.press(key)
        if await page.evaluate("document.activeElement === document.body"):
            continue  # past the last element, where the browser's own controls would follow
        names.append(await focused(page))
        if names[-1] == name:
            return names
    raise AssertionError(f"{name} is not among {names}")


async def test_keyboard_suffices(tmp_path: Path) -> None:
    call = tool_call("1", "exec", command="touch done.txt")
    script = [assistant("", (call,)), "It is done."]
    async with served(tmp_path, script) as server, browser_page() as page:
        await page.goto(server.address)
        await page.wait_for_selector(".login")
        assert await tab_to(page, "Token") == ["Token"]
        await page.keyboard.type(server.secrets["admin"])
        await tab_to(page, "Log in")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".composer textarea")
        assert await focused(page) == "Message"
        await page.keyboard.type("go")
        await page.keyboard.press("Enter")
        # The question takes the focus and returns it.
        await page.wait_for_selector(".approval:focus")
        names = await tab_to(page, "Allow once y")
        assert [name.partition("\n")[0] for name in names] == ["touch done.txt", "Allow once y"]
        await page.wait_for_timeout(600)
        await page.keyboard.press("y")
        await page.wait_for_selector("text=It is done.")
        assert (server.parts.workspace / "done.txt").exists()
        await page.wait_for_selector(".composer textarea:focus")
        # Walk through the page from its start and back.
        await page.reload()
        await page.wait_for_selector(".sidebar .session")
        names = await tab_to(page, "Status")
        assert [name.partition("\n")[0] for name in names] == [
            *("Add files", "Mode", "Skip to the conversation"),
            *("Notify me while I look elsewhere", "Theme", "Log out"),
            *("+ New session", "Search", "go", "Rename: go", "Branch: go", "Close: go", "Status"),
        ]
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".facts")
        assert await focused(page) == "Status"
        await tab_to(page, "Close: go", "Shift+Tab")
        for _ in range(3):
            await page.keyboard.press("Shift+Tab")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=It is done.")
        assert await focused(page) == "Message"


async def test_escape_stops_the_turn_and_closes_the_menu(tmp_path: Path) -> None:
    call = tool_call("1", "exec", command="touch done.txt")
    async with served(tmp_path, [assistant("", (call,))]) as server, browser_page() as page:
        await log_in(page, server)
        await say(page, "go")
        await page.wait_for_selector(".approval:focus")
        await page.keyboard.press("Escape")
        await page.wait_for_selector(IDLE)
        assert await page.locator(".approval").count() == 0
        assert not (server.parts.workspace / "done.txt").exists()
        await page.set_viewport_size({"width": 390, "height": 780})
        await page.focus("header .menu")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".sidebar", state="visible")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Escape")
        await page.wait_for_selector(".sidebar", state="hidden")
        assert await focused(page) == "Sessions"
