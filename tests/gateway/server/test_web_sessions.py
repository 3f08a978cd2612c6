"""Session tree and branches in the browser."""

import os
from pathlib import Path

from agent.types import assistant
from gateway.core.messages import Sender
from gateway.core.session_folder import SessionFolder
from tests.gateway.parts import console_message, tool_call
from tests.gateway.server.browser import NEEDS_CHROMIUM, browser_page, log_in, say, session_of
from tests.gateway.server.served import served

pytestmark = NEEDS_CHROMIUM


async def test_session_is_branched_and_shown_as_a_tree(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        for text in ("one", "two", "three"):
            await say(page, text)
            await page.wait_for_selector(f"article.kore:not(.draft) >> text=re: {text}")
        first = page.url
        await page.hover("article.kore >> nth=0")
        await page.click("article.kore >> nth=0 >> [aria-label='Branch from here']")
        await page.wait_for_url(lambda url: url != first)
        await page.wait_for_selector("article >> nth=1")
        assert await page.locator("article").count() == 2
        await say(page, "other")
        await page.wait_for_selector("article.kore >> text=re: other")
        await page.wait_for_selector(".sidebar li.depth-1.current")
        # A message is edited in a new branch.
        second = page.url
        await page.hover("article.user >> nth=1")
        await page.click("article.user >> nth=1 >> [aria-label='Edit in a branch']")
        await page.wait_for_url(lambda url: url != second)
        await page.wait_for_function(
            "document.querySelector('.composer textarea').value === 'other'"
        )
        await say(page, "another")
        await page.wait_for_selector("article.kore >> text=re: another")
        await page.wait_for_selector(".sidebar li.depth-2.current")
        texts = await page.locator(".bubble, .kore .markdown").all_inner_texts()
        assert texts == [
            "one",
            "re: one",
            "another",
            "re: another",
        ]
        await page.click(".fold >> nth=0")
        assert await page.locator(".sidebar li:has(.session)").count() == 1
        await page.reload()
        await page.wait_for_selector(".fold[aria-expanded=false]")
        assert "↳ 1" in await page.inner_text(".sidebar li:has(.session)")


async def test_draft_stays_with_its_session(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        await say(page, "one")
        await page.wait_for_selector("article.kore >> text=re: one")
        await page.fill(".composer textarea", "half a sentence")
        await page.click(".sidebar .new")
        assert await page.input_value(".composer textarea") == ""
        await page.click(".session")
        await page.wait_for_selector("article.kore >> text=re: one")
        assert await page.input_value(".composer textarea") == "half a sentence"
        await page.reload()
        await page.wait_for_selector("article.kore >> text=re: one")
        assert await page.input_value(".composer textarea") == "half a sentence"


async def test_branch_does_not_separate_a_call_from_its_result(tmp_path: Path) -> None:
    call = tool_call("1", "read_file", path="a.txt")
    async with served(tmp_path, [assistant("", (call,)), "read"]) as server:
        session = await server.parts.service.send_message(None, "go")
        async with server.parts.service.follow_session(session) as events:
            async for event in events:
                if event.type in ("turn_end", "idle"):
                    break
        statuses = []
        for last in (0, 1, 2, 3, 4, 5, -1):
            status, _ = await server.call("fork_session", "chat", session=session, last=last)
            statuses.append(status)
        assert statuses == [200, 400, 400, 400, 200, 400, 400]


async def test_session_works_in_a_chosen_folder_that_the_header_names(tmp_path: Path) -> None:
    project = tmp_path.resolve() / "project"
    project.mkdir()
    folder = SessionFolder(str(project))
    async with served(tmp_path) as server, browser_page() as page:
        owner = Sender(str(os.getuid()))
        message = console_message("hi", sender=owner, options={"cwd": folder.workspace})
        await server.parts.service.submit(message)
        await server.parts.until_answered(message)
        await log_in(page, server)
        await page.select_option(".composer select.folder", label=str(project))
        await say(page, "work there")
        await page.wait_for_selector("article.kore >> text=re: work there")
        assert await page.inner_text("header .folder") == str(project)
        session = session_of(page)
        assert session is not None
        info = (await server.parts.service.preview_session(session, 0, 0)).info
        assert info.folder == folder
        # Another session begins in the workspace.
        await page.click(".sidebar .new")
        await say(page, "work anywhere")
        await page.wait_for_selector("article.kore >> text=re: work anywhere")
        assert await page.locator("header .folder").count() == 0
