"""Message composer in the browser: completion, history and queued messages."""

import json
from pathlib import Path

import pytest

from agent.providers.scripted import EchoProvider
from agent.skills.catalog import SkillCatalog, SkillPaths
from gateway.core.session_folder import SessionFolder
from gateway.store.repositories.conversations import session_folders
from tests.gateway.server.browser import NEEDS_CHROMIUM, api, browser_page, log_in, say
from tests.gateway.server.served import served

pytestmark = NEEDS_CHROMIUM

BOX = ".composer textarea"


async def test_commands_and_files_are_completed(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        (server.parts.workspace / "src").mkdir()
        (server.parts.workspace / "src" / "main.py").write_text("")
        await log_in(page, server)
        await page.type(BOX, "/com")
        await page.wait_for_selector(".completion [aria-selected=true] >> text=/compact")
        await page.press(BOX, "Tab")
        assert await page.input_value(BOX) == "/compact "
        await page.fill(BOX, "look at @sr")
        await page.wait_for_selector(".completion >> text=src/")
        await page.press(BOX, "Enter")
        await page.wait_for_selector(".completion >> text=src/main.py")
        await page.click(".completion li")
        assert await page.input_value(BOX) == "look at src/main.py "
        await page.fill(BOX, "/st")
        await page.wait_for_selector(".completion")
        await page.press(BOX, "Escape")
        assert await page.locator(".completion").count() == 0
        await say(page, "/status")
        await page.wait_for_selector(".said.kore")
        assert await page.inner_text(".user .bubble") == "/status"


async def test_arrow_up_recalls_earlier_messages(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        for text in ("one", "two"):
            await say(page, text)
            await page.wait_for_selector(f"article.kore:not(.draft) >> text=re: {text}")
        values = []
        for key in ("ArrowUp", "ArrowUp", "ArrowUp", "ArrowDown", "ArrowDown"):
            await page.press(BOX, key)
            values.append(await page.input_value(BOX))
        assert values == ["two", "one", "one", "two", ""]
        # An unfinished message is not discarded.
        await page.fill(BOX, "three")
        await page.press(BOX, "ArrowUp")
        assert await page.input_value(BOX) == "three"


@pytest.mark.parametrize(
    ("key", "bubbles"),
    [
        ("Enter", ["one", "long", "<b>next</b>\n\nafter that"]),
        ("Alt+Enter", ["one", "long", "<b>next</b>", "after that"]),
    ],
)
async def test_message_sent_during_a_turn_waits_below_the_conversation(
    tmp_path: Path, key: str, bubbles: list[str]
) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        await say(page, "one")
        await page.wait_for_selector("article.kore:not(.draft) >> text=re: one")
        await say(page, "long")
        await page.wait_for_selector(".draft")
        note = "for the running turn" if key == "Enter" else "queued"
        for text in ("<b>next</b>", "after that"):
            await page.fill(BOX, text)
            await page.wait_for_selector(".composer .send:enabled")
            await page.press(BOX, key)
            await page.wait_for_selector(f".pending >> text={text}")
        await api.expect(page.locator(".pending p.dim")).to_have_text([note, note])
        assert await page.locator(".pending").count() == 2
        await page.press(BOX, "Escape")
        await page.wait_for_selector("article.kore:not(.draft) >> text=after that")
        await api.expect(page.locator(".pending")).to_have_count(0)
        assert await page.locator(".user .bubble").all_inner_texts() == bubbles


async def test_new_command_starts_a_session(tmp_path: Path) -> None:
    calls = f"!tool read_file {json.dumps({'path': 'absent.txt'})}"
    async with served(tmp_path, EchoProvider()) as server, browser_page() as page:
        await log_in(page, server)
        await say(page, calls)
        await page.wait_for_selector(".call.bad .badge")
        await say(page, "/new")
        await page.wait_for_selector(".welcome")
        await say(page, "hello")
        await page.wait_for_selector(".sidebar .session >> nth=1")


# Delays calls until `let_go()`.
HOLD = """name => {
  const send = WebSocket.prototype.send
  const held = []
  WebSocket.prototype.send = function (frame) {
    if (frame.includes(`"${name}"`)) held.push(() => send.call(this, frame))
    else send.call(this, frame)
  }
  window.let_go = () => held.splice(0).forEach(each => each())
}"""


async def test_input_typed_while_a_session_starts_is_kept(tmp_path: Path) -> None:
    async with served(tmp_path, ["first answer"]) as server, browser_page() as page:
        await log_in(page, server)
        await page.evaluate(HOLD, "create_session")
        await say(page, "first")
        await page.wait_for_selector(".composer .send:disabled")
        # A message that waits for its session is visible, as when the server is offline.
        await page.wait_for_selector("article.pending:has-text('first')")
        assert not await page.is_visible(".welcome")
        await page.fill(".composer textarea", "typed meanwhile")
        await page.evaluate("let_go()")
        await page.wait_for_selector("article.kore:not(.draft) >> text=first answer")
        assert await page.locator("article.user").count() == 1
        assert await page.input_value(".composer textarea") == "typed meanwhile"
        await page.click("text=New session")
        await page.wait_for_selector(".welcome")
        assert await page.input_value(".composer textarea") == ""


async def test_files_of_the_session_folder_are_completed(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        part = server.parts.workspace / "part"
        part.mkdir()
        (part / "plum.txt").write_text("")
        (server.parts.workspace / "plan.txt").write_text("")
        session = await server.parts.service.create_session()
        folder = SessionFolder(str(server.parts.workspace.resolve()), str(part.resolve()))
        await server.parts.database.transact(session_folders.put, session, folder)
        await log_in(page, server)
        await page.click(".sidebar .session")
        await page.wait_for_selector("header .folder")
        await page.fill(BOX, "look at @pl")
        await page.wait_for_selector(".completion >> text=plum.txt")
        assert await page.locator(".completion li").count() == 1


async def test_skills_of_the_session_folder_are_completed(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for folder, name in ((project / ".kore", "release"), (tmp_path / "kore", "review-mail")):
        skill = folder / "skills" / name / "SKILL.md"
        skill.parent.mkdir(parents=True)
        skill.write_text(f"---\nname: {name}\ndescription: Do it.\n---\nDo it.\n")
    paths = SkillPaths(tmp_path, tmp_path / "kore", tmp_path / "workspace", trusted=(project,))
    async with served(tmp_path) as server, browser_page() as page:
        server.parts.agent.skills = SkillCatalog(paths)
        session = await server.parts.service.create_session()
        folder = SessionFolder(str(project))
        await log_in(page, server)
        await page.type(BOX, "/re")
        await page.wait_for_selector(".completion >> text=/review-mail")
        assert "/release" not in await page.inner_text(".completion")
        await server.parts.database.transact(session_folders.put, session, folder)
        await page.reload()
        await page.click(".sidebar .session")
        await page.wait_for_selector("header .folder")
        await page.fill(BOX, "/re")
        await page.wait_for_selector(".completion >> text=/release")
        await page.wait_for_selector(".completion >> text=/review-mail")
        assert await server.call("list_commands", "read", folder=str(project)) == (403, "denied")
