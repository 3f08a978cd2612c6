"""Background work of a conversation, in the browser."""

import json
from pathlib import Path

from agent.providers.scripted import EchoProvider
from tests.gateway.server.browser import NEEDS_CHROMIUM, browser_page, log_in, say
from tests.gateway.server.served import served
from tests.processes import has_ended

pytestmark = NEEDS_CHROMIUM

PRINTING = r"printf '\033[31mred\033[0m\n10%%\r100%%\n<b>last</b>\n'; exec sleep 4713.5"


def tool(name: str, **arguments: object) -> str:
    return f"!tool {name} {json.dumps(arguments)}"


async def test_command_and_subagent_are_shown_and_stopped(tmp_path: Path) -> None:
    working = tool("exec", command="exec sleep 4714.5")
    sending = {"description": "look <i>around</i>", "prompt": working, "background": True}
    async with served(tmp_path, EchoProvider()) as server, browser_page() as page:
        await log_in(page, server)
        await page.select_option(".composer select", "auto")
        await say(page, tool("exec", command=PRINTING, background=True))
        await page.wait_for_selector(".tasks-head >> text=In the background: 1")
        await say(page, tool("task", subagent_type="general", **sending))
        await page.wait_for_selector(".tasks-head >> text=In the background: 2")
        await page.click(".tasks-head")
        await page.wait_for_selector(".tasks code >> text=<b>last</b>")
        await page.click(".task >> text=printf")
        await page.wait_for_selector(".printed >> text=red")
        assert await page.inner_text(".printed") == "red\n100%\n<b>last</b>\n"
        await page.click(".task >> text=general: look <i>around</i>")
        await page.wait_for_selector(".steps .call >> text=exec sleep 4714.5")
        for _ in range(2):
            count = await page.locator(".tasks .stop").count()
            await page.click(".tasks .stop >> nth=0")
            await page.wait_for_function(
                "count => document.querySelectorAll('.tasks .stop').length < count", arg=count
            )
        assert await has_ended("sleep 4713.5")
        assert await has_ended("sleep 4714.5")
        await page.wait_for_selector(".tasks-head >> text=In the background: 0")
        # Another session shows none of it.
        await page.click(".sidebar .new")
        assert await page.locator(".tasks").count() == 0
