"""Files and the file editor of the page, in Chromium."""

from pathlib import Path
from typing import Any

from tests.gateway.server.browser import NEEDS_CHROMIUM, api, browser_page, log_in
from tests.gateway.server.pictures import PNG
from tests.gateway.server.served import Served, served

pytestmark = NEEDS_CHROMIUM
TEXT = ".editor .cm-content"
CHANGED = ".editor .send:not([disabled])"


async def open_files(page: Any, server: Served) -> None:
    await log_in(page, server)
    await page.click("header .menu") if await page.is_visible("header .menu") else None
    await page.click(".panels >> text=Files")
    await page.wait_for_selector(".tree")


async def read_editor(page: Any) -> str:
    """Return the rendered lines of the editor."""
    text: str = await page.locator(TEXT).inner_text()
    return text


async def replace_text(page: Any, text: str) -> None:
    await page.click(TEXT)
    await page.keyboard.press("Control+a")
    await page.keyboard.insert_text(text)
    await page.wait_for_selector(CHANGED)


async def test_files_are_viewed_and_changed(tmp_path: Path) -> None:
    # The folder's long name must not push the tree below the editor.
    home = tmp_path / ("long-name-" * 12)
    home.mkdir()
    async with served(home) as server, browser_page() as page:
        folder = server.parts.workspace / "src"
        folder.mkdir()
        (folder / "a.py").write_text("def f():\r\n    pass\r\n", newline="")
        hostile = "<img src=x onerror=alert(1)>.txt"
        (server.parts.workspace / hostile).write_text("<script>alert(2)</script>")
        await open_files(page, server)
        await page.click(".tree >> text=src")
        await page.click(".tree >> text=a.py")
        await page.wait_for_selector(TEXT)
        assert await read_editor(page) == "def f():\n    pass\n\n"
        await replace_text(page, "def g():\n    pass\n")
        assert await page.is_disabled(".tree >> text=a.py")
        await page.keyboard.press("Control+s")
        await page.wait_for_selector("text=Saved.")
        assert (folder / "a.py").read_bytes() == b"def g():\r\n    pass\r\n"
        await page.wait_for_selector(".editor .send[disabled]")
        # Another program changes the file in the meantime.
        (folder / "a.py").write_text("theirs")
        await replace_text(page, "mine")
        await page.click(CHANGED)
        await page.wait_for_selector(".conflict >> text=was changed meanwhile")
        assert await page.locator(".conflict .change").all_inner_texts() == ["theirs", "mine"]
        assert (folder / "a.py").read_text() == "theirs"
        await page.click("text=Take back")
        await api.expect(page.locator(TEXT)).to_have_text("theirs")
        await page.click(f".tree >> text={hostile}")
        await api.expect(page.locator(TEXT)).to_have_text("<script>alert(2)</script>")
        await page.fill("[aria-label='Path of a file']", "notes/new.txt")
        await page.press("[aria-label='Path of a file']", "Enter")
        await page.wait_for_selector("text=not there yet")
        await replace_text(page, "new words")
        await page.click(CHANGED)
        await page.wait_for_selector(".editor:not(:has-text('not there yet'))")
        assert (server.parts.workspace / "notes" / "new.txt").read_text() == "new words"


async def test_files_are_created_moved_deleted_and_restored_by_keyboard(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        workspace = server.parts.workspace
        (workspace / "a.txt").write_text("one")
        await open_files(page, server)

        async def do(label: str, name: str = "") -> None:
            await page.focus(f".file-operations >> text='{label}'")
            await page.keyboard.press("Enter")
            if name:
                await page.wait_for_selector(f"input[aria-label='{label}: Path']:focus")
                await page.keyboard.press("Control+a")
                await page.keyboard.insert_text(name)
                await page.keyboard.press("Enter")

        await do("New folder", "notes")
        await page.click(".tree >> text=notes")
        await page.wait_for_selector(".tree .tree >> text=empty")
        await do("New file", "notes/<b>.txt")
        await page.wait_for_selector(".tree .tree >> text='<b>.txt'")
        await page.wait_for_selector(f"{TEXT}[aria-label='notes/<b>.txt']")
        await do("Rename or move", "notes/c.txt")
        await page.wait_for_selector(".tree .tree >> text=c.txt")
        assert await page.locator(".tree >> text='<b>.txt'").count() == 0
        await page.click(".tree >> text=a.txt")
        await api.expect(page.locator(TEXT)).to_have_text("one")
        await page.click(".file-operations >> text=Delete")
        assert (workspace / "a.txt").exists(), "it asks first"
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=Deleted a.txt.")
        assert not (workspace / "a.txt").exists()
        assert await page.locator(".editor").count() == 0
        await do("Undo")
        await page.wait_for_selector(".tree >> text=a.txt")
        assert (workspace / "a.txt").read_text() == "one"
        await do("Redo")
        await page.wait_for_selector(".tree:not(:has-text('a.txt'))")
        # Changes by others appear in the tree and in an open file.
        (workspace / "notes" / "c.txt").write_text("theirs")
        await page.click(".tree >> text=c.txt")
        await api.expect(page.locator(TEXT)).to_have_text("theirs")
        (workspace / "notes" / "c.txt").write_text("theirs again")
        (workspace / "agent.txt").write_text("made by the agent")
        await page.wait_for_selector(".tree >> text=agent.txt")
        await api.expect(page.locator(TEXT)).to_have_text("theirs again")
        await page.click(".panels >> text=Audit log")
        await page.wait_for_selector(".entries >> text=kore:file")
        text = await page.inner_text(".entries")
        assert '"who":"token browser-' in text
        assert '"operation":"delete"' in text


async def test_editor_highlights_searches_undoes_and_releases_the_focus(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        (server.parts.workspace / "a.py").write_text("def first():\n    return (1)\n")
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        await open_files(page, server)
        await page.click(".tree >> text=a.py")
        await page.wait_for_selector(f"{TEXT} .cm-line:has-text('def') > span")
        colors = await page.eval_on_selector_all(
            f"{TEXT} .cm-line span", "spans => spans.map(span => getComputedStyle(span).color)"
        )
        assert len(set(colors)) > 1
        await page.click(TEXT)
        await page.keyboard.press("Control+f")
        await page.keyboard.type("return")
        await page.wait_for_selector(".cm-searchMatch")
        await page.keyboard.press("Escape")
        await page.keyboard.press("Control+Home")
        # Keys that a slow machine spreads over half a second are several steps to undo.
        await page.keyboard.insert_text("# new ")
        await page.wait_for_selector(CHANGED)
        await page.keyboard.press("Control+z")
        await page.wait_for_selector(".editor .send[disabled]")
        await page.keyboard.press("Tab")
        assert (await read_editor(page)).startswith("    def first")
        await page.keyboard.press("Escape")
        await page.keyboard.press("Tab")
        assert await page.evaluate("document.activeElement.className") != "code-editor"
        assert problems == [], "the policy of the page refuses nothing"


async def test_unsaved_changes_need_confirmation(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        (server.parts.workspace / "a.txt").write_text("one")
        page.remove_listener("dialog", page.on_dialog)
        texts: list[str] = []
        answers = [False, False, True]

        async def answer(dialog: Any) -> None:
            texts.append(dialog.type)
            await (dialog.accept() if answers.pop(0) else dialog.dismiss())

        page.on("dialog", answer)
        await open_files(page, server)
        await page.click(".tree >> text=a.txt")
        await page.wait_for_selector(TEXT)
        await replace_text(page, "two")
        await page.click(".panels >> text=Status")
        await page.go_back()
        await page.wait_for_function("location.hash === '#files'")
        assert await read_editor(page) == "two"
        await page.click(".panels >> text=Status")
        await page.wait_for_selector(".facts")
        assert texts == ["confirm"] * 3
        # No further question appears.
        await page.click(".panels >> text=Files")
        await page.click(".tree >> text=a.txt")
        await api.expect(page.locator(TEXT)).to_have_text("one")


async def test_mixed_line_endings_are_kept(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        file = server.parts.workspace / "mixed.txt"
        file.write_bytes(b"a\r\nb\nc\rd")
        await open_files(page, server)
        await page.click(".tree >> text=mixed.txt")
        await page.click(TEXT)
        await page.keyboard.press("Control+Home")
        await page.keyboard.type("x")
        await page.click(CHANGED)
        await page.wait_for_selector("text=Saved.")
        assert file.read_bytes() == b"xa\r\nb\nc\rd"


async def test_binary_file_is_shown_or_named(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        workspace = server.parts.workspace
        (workspace / "a.png").write_bytes(PNG)
        (workspace / "b.png").write_text("<script>alert(1)</script>")
        (workspace / "c.bin").write_bytes(b"\0\1\2")
        await open_files(page, server)
        await page.click(".tree >> text=a.png")
        await page.wait_for_selector(".picture img")
        width = "document.querySelector('.picture img').naturalWidth === 1"
        await page.wait_for_function(width)
        await page.click(".tree >> text=b.png")
        await page.wait_for_selector(".picture >> text=is not a picture")
        await page.click(".tree >> text=c.bin")
        await page.wait_for_selector(".editor >> text=is a binary file")
        assert not await page.is_visible(".code-editor")


async def test_large_file_on_a_phone(tmp_path: Path) -> None:
    options = {"viewport": {"width": 390, "height": 780}, "color_scheme": "dark"}
    async with served(tmp_path) as server, browser_page(**options) as page:
        lines = "".join(f'{{"number": {n}, "text": "line {n}"}},\n' for n in range(22_000))
        (server.parts.workspace / "large.json").write_text(f"[{lines}0]")
        (server.parts.workspace / "line.json").write_text("[" + "1234567," * 120_000 + "0]")
        await open_files(page, server)
        for name in ("large.json", "line.json"):
            await page.click(f".tree >> text={name}")
            await page.wait_for_selector(f"{TEXT}[aria-label='{name}']")
            await page.click(TEXT)
            await page.keyboard.press("Control+End")
            await page.keyboard.type("  ")
            await page.wait_for_selector(CHANGED)
            # Only visible lines are in the page.
            drawn = "document.querySelector('.code-editor').shadowRoot.textContent.length"
            assert await page.evaluate(drawn) < 200_000
            await page.keyboard.press("Control+s")
            await page.wait_for_selector(".editor .send[disabled]")
            assert (server.parts.workspace / name).read_text().endswith("0]  ")
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
