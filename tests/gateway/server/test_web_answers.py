"""Answers in the browser: changes, tables, errors, and the end of the feed."""

from pathlib import Path

from agent.errors import KeyRefused
from agent.security.taint.link_stream import defuse_links
from agent.types import assistant
from tests.agent.security.taint.link_spellings import CANARY as SPELLED
from tests.agent.security.taint.link_spellings import OFFERED, spelled_texts
from tests.gateway.parts import tool_call
from tests.gateway.server.browser import NEEDS_CHROMIUM, api, browser_page, log_in, say
from tests.gateway.server.served import served
from tests.injection.faces import HOSTILE, Scenario
from tests.injection.scene import CANARY

pytestmark = NEEDS_CHROMIUM

LINES = """cell => {
  const range = document.createRange()
  range.selectNodeContents(cell)
  return range.getClientRects().length
}"""


LINKS = """async texts => {
  const { rendered } = await import("/web/app/markdown.mjs")
  const links = texts.flatMap(text => [...rendered(text).querySelectorAll("a, img")])
  return links.map(link => link.href || link.src || "")
}"""


async def test_diff_stays_visible(tmp_path: Path) -> None:
    read = tool_call("1", "read_file", path="a.py")
    edit = tool_call(
        "2", "edit_file", path="a.py", old_string="old line", new_string="<b>new</b> line"
    )
    script = [assistant("", (read,)), assistant("", (edit,)), "changed\n\n" * 40 + "the end"]
    async with served(tmp_path, script) as server, browser_page() as page:
        (server.parts.workspace / "a.py").write_text("old line\n" + "x = 1\n" * 60)
        await log_in(page, server)
        await page.select_option(".composer select", "auto")
        await say(page, "go")
        await page.wait_for_selector("article.kore:not(.draft) >> text=the end")
        await page.wait_for_selector(".workbench:not(:has(.stop))")
        # The feed is scrolled to its end, although the change made it grow.
        await api.expect(page.locator("text=the end")).to_be_in_viewport()
        assert await page.text_content(".diff .change .new") == "<b>new</b> line"
        await page.reload()
        await page.wait_for_selector(".diff .change")
        assert await page.text_content(".diff .change .old") == "old line"
        assert await page.text_content(".diff .change .new") == "<b>new</b> line"


async def test_model_error_is_shown_once_with_a_retry_button(tmp_path: Path) -> None:
    script = [KeyRefused("the key was refused", hint="Check the key."), "now it works"]
    async with served(tmp_path, script) as server, browser_page() as page:
        await log_in(page, server)
        await say(page, "hello")
        await page.wait_for_selector(".said.failure >> text=Check the key.")
        assert await page.locator("text=the key was refused").count() == 1
        await page.click("text=Try again")
        await page.wait_for_selector("text=now it works")
        assert await page.locator("text=Try again").count() == 0
        assert await page.locator(".user .bubble").all_inner_texts() == ["hello", "hello"]


async def test_table_and_all_buttons_fit_on_a_phone(tmp_path: Path) -> None:
    table = "| lines | what is wrong with it | how it is changed | who |\n|---|---|---|---|\n"
    table += "| 4,711 | everything-that-can-be | unbelievably | Ann |"
    call = tool_call("1", "exec", command="true")
    options = {"viewport": {"width": 390, "height": 780}, "has_touch": True}
    script = [table, assistant("", (call,))]
    async with served(tmp_path, script) as server, browser_page(**options) as page:
        await log_in(page, server)
        await say(page, "look")
        # The draft disappears when the answer is stored.
        await page.wait_for_selector("article.kore:not(.draft) td")
        # No word is broken across lines.
        assert await page.locator("td").first.evaluate(LINES) == 1
        assert await page.locator("td").last.evaluate(LINES) == 1
        await say(page, "go")
        await page.wait_for_selector(".approval")
        right = "e => e.getBoundingClientRect().right"
        for button in (".stop", ".send"):
            assert await page.locator(f".composer {button}").evaluate(right) <= 390


async def test_link_shows_its_address(tmp_path: Path) -> None:
    answer = (
        "[the page](https://docs.example/page), [https://ok.example](https://docs.example/x), "
        "https://docs.example/y and ![a picture](https://docs.example/z.png)"
    )
    async with served(tmp_path, [answer]) as server, browser_page() as page:
        await log_in(page, server)
        await say(page, "hello")
        await page.wait_for_selector("article.kore:not(.draft) a")
        assert await page.inner_text("article.kore .markdown") == (
            "the page (https://docs.example/page), https://ok.example (https://docs.example/x), "
            "https://docs.example/y and a picture (https://docs.example/z.png)"
        )


async def test_links_with_a_secret_are_not_clickable(tmp_path: Path) -> None:
    scenario = Scenario(tmp_path, HOSTILE, tainted=True)
    async with (
        served(tmp_path, scenario.replies, **scenario.parts()) as server,
        browser_page() as page,
    ):
        await log_in(page, server)
        await say(page, "hi")
        await page.wait_for_selector("article.kore:not(.draft) .markdown code")
        assert CANARY in await page.inner_text(".feed")
        assert await page.locator(".feed a").count() == 0


async def test_generated_links_are_not_clickable(tmp_path: Path) -> None:
    texts = [defuse_links(text, lambda link: link == OFFERED) for text in spelled_texts(9, 1_000)]
    async with served(tmp_path, []) as server, browser_page() as page:
        await log_in(page, server)
        links = await page.evaluate(LINKS, texts)
    assert OFFERED in links
    assert not [link for link in links if SPELLED in link]
