"""Actions of a person on the page, and checks of their visible results."""

import base64
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from kore.client import Client
from tests.fakes.model_mind import person_text
from tests.gateway.server.browser import IDLE, say, session_of

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

PANELS = (
    *("Status", "Costs", "Schedule", "Memory", "Files", "Terminal", "Plugins"),
    *("People and roles", "Permissions", "Policy check", "Configuration", "Logs", "Audit log"),
)
# A question accepts no answer during this time.
_ARMED_AFTER_MS = 600
_MOST_SESSIONS = 40
_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJg"
    "gg=="
)
# Role and text of each article, with whitespace collapsed.
_SHOWN = """
() => [...document.querySelectorAll('.feed article:not(.draft)')].map(one => [
  one.classList.contains('user') ? 'user' : 'assistant',
  (one.querySelector('.bubble, .markdown')?.textContent ?? '').replace(/\\s+/g, ' ').trim(),
])
"""
# Show earlier messages; true if there are more.
_SHOW_EARLIER = """
() => {
  const button = document.querySelector('.earlier')
  button?.click()
  return Boolean(button)
}
"""


class Person:
    """A tab; `texts` are the sent messages, `forks` the sessions that are copies."""

    def __init__(self, page: "Page", kore: Client, chance: random.Random) -> None:
        self.page, self.kore, self.chance = page, kore, chance
        self.texts: list[str] = []
        self.forks: set[str] = set()
        self.faults: list[str] = []

    def actions(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the actions by name."""
        return {
            "new": self.begin,
            "long": lambda: self.ask("long"),
            "think": lambda: self.ask("think"),
            "allow": lambda: self.answer("y"),
            "deny": lambda: self.answer("n"),
            "stop": self.stop,
            "switch": self.switch,
            "rename": self.rename,
            "fork": self.fork,
            "search": self.search,
            "panels": self.walk_panels,
            "files": self.change_files,
            "terminal": self.use_terminal,
            "plugins": self.look_for_plugins,
            "policy": self.check_policy,
            "picture": self.send_picture,
            "reload": self.reload,
            "offline": self.lose_network,
            "close": self.close_session,
        }

    async def send(self, kind: str) -> str:
        """Send a message of a kind; return the end of its expected answer."""
        number = f"[{len(self.texts) + 1}]"
        self.texts.append(f"{kind} {number}")
        await say(self.page, self.texts[-1])
        return f"That was {number}"

    async def ask(self, kind: str) -> None:
        end = await self.send(kind)
        await self.page.wait_for_selector(f"article.kore:not(.draft) >> text={end}")
        await self.page.wait_for_selector(IDLE)

    async def begin(self) -> None:
        await self.page.click(".sidebar .new")
        await self.page.wait_for_selector(".welcome")
        await self.ask("hello")

    async def answer(self, key: str) -> None:
        end = await self.send("run")
        await self.page.wait_for_selector(".approval .answer.main")
        await self.page.wait_for_timeout(_ARMED_AFTER_MS)
        if self.chance.random() < 0.5:
            await self.page.focus(".approval")
            await self.page.keyboard.press(key)
        else:
            await self.page.click(".approval .answer" + (".main" if key == "y" else ".no"))
        await self.page.wait_for_selector(f"article.kore:not(.draft) >> text={end}")
        await self.page.wait_for_selector(IDLE)

    async def stop(self) -> None:
        await self.send("slow")
        await self.page.wait_for_selector(".draft .markdown")
        await self.page.press(".composer textarea", "Escape")
        await self.page.wait_for_selector(IDLE)

    async def switch(self) -> None:
        rows = self.page.locator(".sidebar button.session")
        await rows.nth(self.chance.randrange(min(8, await rows.count()))).click()
        await self.compare()

    async def rename(self) -> None:
        name = f"renamed <b>{len(self.texts)}</b>"
        self.page.once("dialog", lambda dialog: dialog.accept(name))
        await self._row_action("Rename")
        await self.page.wait_for_selector(f".sidebar >> text={name}")

    async def fork(self) -> None:
        before = session_of(self.page)
        await self._row_action("Branch")
        await self.page.wait_for_function("id => location.hash !== `#${id}`", arg=before)
        fork = session_of(self.page)
        assert fork is not None
        self.forks.add(fork)
        await self.compare()

    async def search(self) -> None:
        await self.page.fill(".sidebar input[type=search]", "hello")
        await self.page.wait_for_selector(".sidebar .snippet")
        await self.page.fill(".sidebar input[type=search]", "")
        await self.page.wait_for_selector(".sidebar .row-actions", state="attached")

    async def walk_panels(self) -> None:
        before = session_of(self.page)
        for name in PANELS:
            await self.page.click(f".panels >> text='{name}'")
            await self.page.wait_for_selector(f".panel h2 >> text='{name}'")
        for _ in PANELS:
            await self.page.go_back()
        await self.page.wait_for_selector(".composer textarea")
        assert session_of(self.page) == before

    @asynccontextmanager
    async def panel(self, name: str) -> AsyncIterator[None]:
        """Open a panel, and return to the session afterwards."""
        before = session_of(self.page)
        await self.page.click(f".panels >> text='{name}'")
        await self.page.wait_for_selector(f".panel h2 >> text='{name}'")
        yield
        await self.page.go_back()
        await self.page.wait_for_selector(".composer textarea")
        assert session_of(self.page) == before

    async def change_files(self) -> None:
        """Create, write, rename, delete and restore files, and delete them permanently."""
        name = f"soak-{self.chance.randrange(10**9)}.txt"
        moved = f"moved-{name}"
        async with self.panel("Files"):
            await self._fill_path("New file", name)
            await self.page.wait_for_selector(f".tree >> text={name}")
            await self.page.click(".editor .cm-content")
            await self.page.keyboard.insert_text("words of the soak")
            await self.page.keyboard.press("Control+s")
            await self.page.wait_for_selector(".editor .send[disabled]")
            await self._fill_path("Rename or move", moved)
            await self.page.wait_for_selector(f".tree >> text='{moved}'")
            await self._delete(moved)
            await self.page.click(".file-operations >> text='Undo'")
            await self.page.wait_for_selector(f".tree >> text='{moved}'")
            await self.page.click(f".tree >> text='{moved}'")
            await self.page.wait_for_selector(".editor .cm-content >> text=words of the soak")
            await self._delete(moved)

    async def _fill_path(self, label: str, path: str) -> None:
        await self.page.click(f".file-operations >> text='{label}'")
        await self.page.fill(f"input[aria-label='{label}: Path']", path)
        await self.page.press(f"input[aria-label='{label}: Path']", "Enter")

    async def _delete(self, name: str) -> None:
        await self.page.click(f".tree >> text='{name}'")
        await self.page.click(".file-operations >> text='Delete'")
        await self.page.click(".file-operations .certain .bad")
        await self.page.wait_for_selector(f".tree >> text='{name}'", state="detached")

    async def use_terminal(self) -> None:
        async with self.panel("Terminal"):
            await self.page.click("text=New terminal")
            await self.page.wait_for_selector(".terminal .xterm-rows")
            await self.page.locator(".terminal .xterm-helper-textarea").focus()
            number = self.chance.randrange(10**6)
            await self.page.keyboard.type(f"echo $(({number} + 1))")
            await self.page.keyboard.press("Enter")
            await self.page.wait_for_selector(f".terminal .xterm-rows >> text={number + 1}")
            await self.page.click(".terminals .row >> text='Close'")
            await self.page.wait_for_selector(".terminal", state="detached")

    async def look_for_plugins(self) -> None:
        """Search for a missing plugin: the page reports that there is none."""
        async with self.panel("Plugins"):
            await self.page.fill("input[aria-label='Source of a plugin']", "/no/such/folder")
            await self.page.press("input[aria-label='Source of a plugin']", "Enter")
            await self.page.wait_for_selector(".failure")
            await self.page.click(".failure >> text=Cancel")
            await self.page.wait_for_selector("input[aria-label='Source of a plugin']")

    async def check_policy(self) -> None:
        async with self.panel("Policy check"):
            await self.page.fill(".policy input", "git push --force")
            await self.page.press(".policy input", "Enter")
            await self.page.wait_for_selector(".verdict")

    async def send_picture(self) -> None:
        picture: Any = {"name": "a.png", "mimeType": "image/png", "buffer": _PNG}
        await self.page.set_input_files(".attach input", [picture])
        await self.page.wait_for_selector(".composer .files >> text=a.png")
        await self.ask("picture")

    async def reload(self) -> None:
        await self.page.reload()
        await self.page.wait_for_selector(".sidebar .row-actions", state="attached")
        await self.compare()

    async def lose_network(self) -> None:
        await self.page.context.set_offline(True)
        try:
            end = await self.send("hello")
            await self.page.wait_for_timeout(self.chance.randrange(2_000))
        finally:
            await self.page.context.set_offline(False)
        await self.page.wait_for_selector(f"article.kore:not(.draft) >> text={end}")
        await self.page.wait_for_selector(IDLE)

    async def close_session(self) -> None:
        """Close the oldest session in the sidebar, when there are many."""
        rows = self.page.locator(".sidebar li:has(.row-actions)")
        if await rows.count() > _MOST_SESSIONS:
            await rows.last.hover()
            await rows.last.locator("[title=Close]").click()

    async def open(self, session: str) -> None:
        """Open a session by its address, as a bookmark does, without a reload."""
        await self.page.evaluate(
            "id => { history.pushState(null, '', `#${id}`); dispatchEvent(new Event('popstate')) }",
            session,
        )
        await self.page.wait_for_selector(IDLE)

    async def compare(self) -> None:
        """Wait until the page shows each stored message exactly once."""
        session = session_of(self.page)
        if session is None:
            return
        stored = await stored_messages(self.kore, session)
        shown: list[tuple[str, str]] = []
        for _ in range(100):
            while await self.page.evaluate(_SHOW_EARLIER):
                pass
            shown = [(role, text) for role, text in await self.page.evaluate(_SHOWN)]
            if _agree(shown, stored):
                return
            await self.page.wait_for_timeout(100)
            stored = await stored_messages(self.kore, session)
        pairs = enumerate(zip(shown, stored, strict=False))
        differences = [n for n, (mine, theirs) in pairs if not _agree([mine], [theirs])]
        where = (*differences, min(len(shown), len(stored)))[0]
        self.faults.append(
            f"session {session}: {len(shown)} shown, {len(stored)} stored; from {where} on"
            f" {shown[where : where + 2]} for {stored[where : where + 2]}"
        )

    async def _row_action(self, title: str) -> None:
        row = self.page.locator(".sidebar li.current")
        await row.hover()
        await row.locator(f"[title={title}]").click()


async def stored_messages(kore: Client, session: str) -> list[tuple[str, str]]:
    """Return role and text of each message of the person and the model."""
    messages = await kore.call("load_messages", session=session)
    return [
        (message["role"], _text(message))
        for message in messages
        if message["role"] in ("user", "assistant")
    ]


def _text(message: Mapping[str, Any]) -> str:
    """Return the person's text, without Kore's additions for the model."""
    if message["role"] == "user":
        return person_text(message)
    return "".join(part.get("text", "") for part in message["content"])


def _agree(shown: list[tuple[str, str]], stored: list[tuple[str, str]]) -> bool:
    """Compare roles and texts in order.

    Only the end of an answer is compared, because rendered markdown differs from the source.
    """
    if [role for role, _ in shown] != [role for role, _ in stored]:
        return False
    return all(
        mine.split() == theirs.split() if role == "user" else mine[-12:] == theirs.rstrip()[-12:]
        for (role, mine), (_, theirs) in zip(shown, stored, strict=True)
    )


async def open_tab(context: "BrowserContext", address: str, faults: list[str]) -> "Page":
    """Open a tab that adds its errors to `faults`."""
    page = await context.new_page()
    page.on("pageerror", lambda error: faults.append(f"page: {error}"))
    await page.goto(address)
    return page


async def log_in(page: "Page", token: str) -> None:
    """Log in, for all tabs of the browser."""
    await page.fill(".login input", token)
    await page.press(".login input", "Enter")
    await page.wait_for_selector(".composer textarea")
