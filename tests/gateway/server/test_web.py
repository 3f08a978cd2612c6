"""Web page in a real browser, over a real server and a fake model."""

import asyncio
import hashlib
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

from agent.types import ImageFile, assistant
from gateway.core.question_view import approval_event
from gateway.plugins.market import make_index
from gateway.server.web.pages import file_names, read_page_file
from tests.fakes.model import ModelServer
from tests.gateway.core.page_attacks import ATTACKS
from tests.gateway.parts import tool_call
from tests.gateway.server.browser import (
    IDLE,
    NEEDS_CHROMIUM,
    api,
    browser_page,
    log_in,
    log_in_by_token,
    say,
)
from tests.gateway.server.pictures import PNG
from tests.gateway.server.processes import KEY, Machine, free_port
from tests.gateway.server.served import served
from tests.house.vendored import FOLDER, PACKAGES

pytestmark = NEEDS_CHROMIUM


async def test_link_logs_in_and_a_question_is_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        await say(page, "hello **you**")
        await page.wait_for_selector(".kore .markdown strong")
        assert await page.inner_text(".kore .markdown") == "re: hello you"
        assert await page.inner_text(".user .bubble") == "hello **you**"
        # The session appears in the sidebar, and stays in the address after a reload.
        await page.wait_for_selector(".sidebar li.current")
        await page.reload()
        await page.wait_for_selector(".kore .markdown strong")
        assert await page.locator("article").count() == 2


async def test_session_list_is_live(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        await page.wait_for_selector(".sidebar .none")
        # Another client starts a session, sends a message and renames it.
        session = await server.parts.service.send_message(None, "spoken elsewhere")
        await page.wait_for_selector(".sidebar li b:has-text('spoken elsewhere')")
        await server.parts.service.rename_session(session, "named elsewhere")
        await page.wait_for_selector(".sidebar li b:has-text('named elsewhere')")
        assert await page.locator(".sidebar li").count() == 1


async def test_page_without_a_token_is_empty(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await page.goto(server.address)
        await page.wait_for_selector(".login")
        await page.fill(".login input", "kore_wrong")
        await page.press(".login input", "Enter")
        await page.wait_for_selector(".login [role=alert]")
        await page.fill(".login input", server.secrets["admin"])
        await page.press(".login input", "Enter")
        await page.wait_for_selector(".composer textarea")
        await page.click("text=Log out")
        await page.wait_for_selector(".login")


async def test_approval_is_answered_by_its_key(tmp_path: Path) -> None:
    call = tool_call("1", "exec", command="touch done.txt")
    script = [assistant("", (call,)), "It is done."]
    async with served(tmp_path, script) as server, browser_page() as page:
        await log_in(page, server)
        await say(page, "go")
        await page.wait_for_selector(".approval")
        assert "touch done.txt" in await page.inner_text(".approval .lines")
        # Keys typed while the question appears do not answer it.
        await page.wait_for_timeout(600)
        await page.keyboard.press("y")
        await page.wait_for_selector("text=It is done.")
        assert (server.parts.workspace / "done.txt").exists()
        assert await page.locator(".approval").count() == 0
        assert "✓" in await page.inner_text(".call summary")


async def test_question_is_shown_completely_and_allowed_only_at_its_end(tmp_path: Path) -> None:
    lines = [f"echo {n} \u202e{n}" for n in range(80)]
    command = "\n".join([*lines, "\u2066touch done.txt\u2069" + " " * 300 + "; touch more.txt"])
    call = tool_call("1", "exec", command=command, background=True)
    script = [assistant("", (call,)), "Done."]
    async with served(tmp_path, script) as server, browser_page() as page:
        await log_in(page, server)
        await say(page, "go")
        await page.wait_for_selector(".approval")
        (prompt,) = await server.parts.service.list_approvals()
        approval = approval_event(prompt)
        shown = await page.locator(".approval .lines .line").all_inner_texts()
        assert [item.strip("\n") for item in shown] == [line.text for line in approval.view.lines]
        assert "background: true" in shown
        labels = await page.locator(".approval .actions button").all_inner_texts()
        assert [" ".join(label.split()) for label in labels] == [
            f"{option.label} {option.key}" for option in approval.view.options
        ]
        # Each line fits into the box, regardless of its length.
        assert await page.eval_on_selector(
            ".approval .lines", "box => box.scrollWidth <= box.clientWidth"
        )
        await page.wait_for_timeout(600)
        await page.keyboard.press("y")
        assert await page.locator(".approval .answer.main").is_disabled()
        assert await page.locator(".approval .answer.no").is_enabled()
        await page.locator(".approval .end").scroll_into_view_if_needed()
        await page.wait_for_selector(".approval .answer.main:enabled")
        assert len(await server.parts.service.list_approvals()) == 1
        await page.keyboard.press("y")
        await page.wait_for_selector(".approval", state="detached")
        assert await server.parts.service.list_approvals() == []


# Elements that text could add to the page; the composer already contains some.
FOREIGN_ELEMENTS = (
    "[...document.querySelectorAll('script,iframe,object,embed,base,style,svg,form')]"
    ".filter(e => !e.closest('.composer')).map(e => e.outerHTML)"
)


async def test_untrusted_text_is_escaped(tmp_path: Path) -> None:
    printing = "\n".join(attack for attack in ATTACKS if "\x00" not in attack)
    call = tool_call(
        "1", "exec", command=f"cat > '<b>.txt' <<'END'\n{printing}\nEND\ncat '<b>.txt'"
    )
    script = [assistant("\n\n".join(ATTACKS), (call,)), "\n\n".join(reversed(ATTACKS))]
    async with served(tmp_path, script) as server, browser_page() as page:
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        await log_in(page, server)
        own = await page.evaluate(FOREIGN_ELEMENTS)
        await say(page, "\n".join(ATTACKS))
        await page.wait_for_selector(".approval .answer.main")
        await page.wait_for_timeout(600)
        await page.locator(".approval .end").scroll_into_view_if_needed()
        await page.click(".approval .answer.main")
        await page.wait_for_selector(".workbench:not(:has(.stop))")
        ((session,),) = await server.parts.stored("session", "id")
        for name in ATTACKS[:6]:
            await server.parts.service.rename_session(session, name)
            await page.reload()
            await page.wait_for_selector(".sidebar li.current")
        await page.wait_for_selector("article.kore")
        assert await page.evaluate(FOREIGN_ELEMENTS) == own
        links = await page.evaluate("[...document.querySelectorAll('a[href]')].map(a => a.href)")
        assert all(link.startswith(("http:", "https:", "mailto:")) for link in links)
        handlers = await page.evaluate(
            "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())"
            ".filter(name => name.startsWith('on'))"
        )
        assert handlers == []
        assert [url for url in requests if not url.startswith(server.address)] == []


async def test_page_reconnects_to_a_restarted_server(tmp_path: Path) -> None:
    async with ModelServer(api_key=KEY) as model, browser_page() as page:
        machine, port = Machine(tmp_path, model), free_port()
        words = ("--listen-addr", f"127.0.0.1:{port}")
        async with machine.serving(*words) as process:
            await log_in_by_token(page, machine)
            await say(page, "one")
            await page.wait_for_selector("article.kore:has-text('one')")
            link = await asyncio.create_subprocess_exec(
                *("python", "-m", "gateway", "web", "--no-browser"),
                env={"PATH": _path(), "HOME": str(machine.home), "KORE_HOME": str(machine.home)},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
            out, _ = await link.communicate()
            await page.goto("about:blank")
            await page.goto(out.decode().strip())
            await page.wait_for_selector(".sidebar button.session")
            await page.click(".sidebar button.session")
            await page.wait_for_selector("article.kore:has-text('one')")
            process.send_signal(signal.SIGKILL)
            await process.wait()
        await page.wait_for_selector(".offline")
        async with machine.serving(*words):
            await page.wait_for_selector(".workbench:not(:has(.offline))")
            await say(page, "two")
            await page.wait_for_selector("article.kore:has-text('two')")
            texts = await page.locator("article").all_inner_texts()
        assert len(texts) == 4


def _path() -> str:
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


async def test_diff_stays_next_to_its_call(tmp_path: Path) -> None:
    write = tool_call("1", "write_file", path="a.sql", content="-- one\nselect 1;\n")
    edit = tool_call("2", "edit_file", path="a.sql", old_string="-- one", new_string="++ two")
    script = [assistant("", (write,)), assistant("", (edit,)), "Done."]
    async with served(tmp_path, script) as server, browser_page() as page:
        await log_in(page, server)
        await page.select_option(".composer select", "accept-edits")
        await say(page, "go")
        await page.wait_for_selector("text=Done.")
        await page.wait_for_selector(IDLE)
        await assert_shows_the_edit(page)
        await page.reload()
        await assert_shows_the_edit(page)


async def assert_shows_the_edit(page: Any) -> None:
    sides = page.locator(".call >> nth=1").locator(".diff .change span")
    await api.expect(sides).to_have_text(["-- one", "++ two"])


async def test_code_is_shown_without_colours_if_highlighting_fails(tmp_path: Path) -> None:
    async with served(tmp_path, ["```python\nx = 1\n```"]) as server, browser_page() as page:
        await page.route("**/vendor/highlight.mjs", lambda route: route.abort())
        await log_in(page, server)
        async with page.expect_event("requestfailed"):
            await say(page, "some code")
        assert await page.inner_text(".code code") == "x = 1\n"


async def test_phone_and_dark_mode(tmp_path: Path) -> None:
    options = {"viewport": {"width": 390, "height": 780}, "color_scheme": "dark", "locale": "zh-CN"}
    async with served(tmp_path) as server, browser_page(**options) as page:
        await log_in(page, server)
        await say(page, "你好")
        await page.wait_for_selector(".kore .markdown")
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390
        assert await page.inner_text(".send") == "发送"
        assert not await page.is_visible(".sidebar")
        await page.click("header .menu")
        assert await page.is_visible(".sidebar")
        await page.click(".sidebar button.session")
        assert not await page.is_visible(".sidebar")


def test_first_screen_is_small() -> None:
    """Count the files that the page imports at startup."""
    names = {"index.html", "app.css", "icon.svg", "app/main.mjs"}
    waiting = ["app/main.mjs"]
    while waiting:
        name = waiting.pop()
        text = read_page_file(name).data.decode()
        for path in re.findall(r"""^(?:import|export)\b[^"';]*["'](\.[^"']+)["']""", text, re.M):
            imported = os.path.normpath(f"{name}/../{path}")
            assert imported in file_names(), (name, path)
            if imported not in names:
                names.add(imported)
                waiting.append(imported)
    assert len(names) > 20
    assert not any("codemirror" in name or "xterm" in name for name in names)
    assert sum(len(read_page_file(name).packed) for name in names) < 150_000


def test_vendored_files_match_their_digests() -> None:
    facts = json.loads((FOLDER / "vendored.json").read_text("utf-8"))
    assert facts["packages"] == sorted(PACKAGES)
    digests = {
        path.relative_to(FOLDER).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in FOLDER.rglob("*")
        if path.is_file() and path.name != "vendored.json"
    }
    assert digests == facts["sha256"]


async def test_panels_show_and_change_their_data(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        await say(page, "hello")
        await page.wait_for_selector("article.kore")
        await page.click("text=Status")
        await page.wait_for_selector(".facts >> text=Spent today")
        await page.click(".panels >> text=Schedule")
        await page.fill(".panel input >> nth=0", "tomorrow 9:00")
        await page.fill(".panel input >> nth=1", "call <b>the dentist</b>")
        await page.click(".panel .send")
        await page.wait_for_selector(".cards >> text=call <b>the dentist</b>")
        await page.click("text=Pause")
        await page.click("text=Remove")
        await page.wait_for_selector("text=Nothing is scheduled.")
        for name in (
            "People and roles",
            "Permissions",
            "Costs",
            "Logs",
            "Audit log",
            "Configuration",
        ):
            await page.click(f".panels >> text={name}")
            await page.wait_for_selector(f".panel h2 >> text={name}")
        await page.wait_for_selector("th >> text=agent.model")
        await page.go_back()
        await page.wait_for_selector(".panel h2 >> text=Audit log")
        await page.click(".panels >> text=Memory")
        await page.select_option(".note select", "USER.md")
        await page.wait_for_selector(".note textarea:enabled")
        await page.fill(".note textarea", "I drink tea.")
        await page.click("text=Save")
        await page.wait_for_selector("text=Saved.")
        assert (server.parts.workspace / "USER.md").read_text() == "I drink tea."
        # Panels requested before the connection is open.
        for name in ("memory", "config", "files"):
            await page.goto(f"{server.address}/#{name}")
            await page.reload()
            await page.wait_for_selector(".panel :is(textarea:enabled, code, .tree li)")


async def test_picture_is_attached(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        picture = {"name": "a.png", "mimeType": "image/png", "buffer": PNG}
        await page.set_input_files(".attach input", [picture])
        await page.wait_for_selector(".files >> text=a.png")
        await say(page, "what is this?")
        await page.wait_for_selector("article.kore")
        ((session,),) = await server.parts.stored("session", "id")
        (message, *_) = await server.parts.service.load_messages(session)
        assert [part.digest for part in message.content if isinstance(part, ImageFile)]


def make_market(folder: Path) -> Path:
    """Make a market with a plugin whose texts are hostile."""
    place = folder / "greeter"
    (place / "skills" / "hi").mkdir(parents=True)
    (place / "skills" / "hi" / "SKILL.md").write_text("---\nname: hi\n---\nSay hi.")
    (place / "<img src=x onerror=alert(3)>").write_text("x")
    evil = "<script>alert(1)</script>"
    command = {"type": "command", "command": f"echo '{evil}'"}
    values = {
        "name": "greeter",
        "version": "1.0",
        "description": f"Greets. {evil}",
        "userConfig": {"KEY": {"title": f"Key {evil}", "sensitive": True, "required": True}},
        "hooks": {"Stop": [{"hooks": [command]}]},
    }
    (place / ".claude-plugin").mkdir()
    (place / ".claude-plugin" / "plugin.json").write_text(json.dumps(values))
    make_index(folder, "fair")
    return folder


async def test_reviewed_plugin_is_installed(tmp_path: Path) -> None:
    fair = make_market(tmp_path / "fair")
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        await page.click(".panels >> text=Plugins")
        await page.wait_for_selector("text=No plugins are installed.")
        # A failed download shows an error with a way to cancel.
        await page.fill(".market input", str(tmp_path / "nowhere"))
        await page.press(".market input", "Enter")
        await page.wait_for_selector(".failure >> text=Try again")
        await page.click(".failure >> text=Cancel")
        await page.fill(".market input", str(fair))
        await page.press(".market input", "Enter")
        await page.wait_for_selector("text=fair: 1 plugin")
        await page.fill(".panel [type=search]", "greets")
        await page.click("[aria-label='Look at it: greeter']")
        await page.wait_for_selector("h3:focus >> text=Install: greeter 1.0")
        shown = await page.inner_text(".panel")
        assert "Stop (command): echo '<script>alert(1)</script>'" in shown
        # The plugin changes between the review and the click.
        (fair / "greeter" / "skills" / "hi" / "SKILL.md").write_text("other")
        await page.fill(".install input[type=password]", "sesame")
        await page.click(".install .send")
        await page.wait_for_selector(".failure >> text=changed since it was shown")
        await page.click(".failure >> text=Try again")
        await page.wait_for_selector(".install:not(:has(.failure))")
        await page.fill(".install input[type=password]", "sesame")
        await page.click(".install .send")
        await page.wait_for_selector("text=installed greeter 1.0")
        assert "sesame" not in await page.content()
        await page.click("text=Disable")
        await page.wait_for_selector("[aria-label='Enable: greeter']")
        await page.click("[aria-label='Look for an update: greeter']")
        await page.wait_for_selector("text=up to date.")
        await page.click(".back")
        await page.click("[aria-label='Remove: greeter']")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("text=No plugins are installed.")


async def test_policy_is_explained_without_running_anything(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        await page.click(".panels >> text=Policy check")
        await page.fill(".policy input", "touch made; rm -rf x")
        await page.click(".policy .send")
        await page.wait_for_selector(".verdict.deny >> text=blocked-command")
        await page.click("text=What each rule says")
        assert "rm -rf x" in await page.inner_text(".panel table")
        await page.select_option(".policy select >> nth=0", "read_file")
        await page.fill(".policy textarea", "no object")
        await page.click(".policy .send")
        await page.wait_for_selector(".failure >> text=JSON object")
        await page.fill(".policy textarea", '{"path": "a.txt"}')
        await page.click(".policy .send")
        await page.wait_for_selector(".verdict.allow")
        assert list(server.parts.workspace.iterdir()) == []


async def test_setting_is_changed_after_both_values_are_shown(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"agent": {"model": "offline/echo"}}')
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        await page.click(".panels >> text=Configuration")
        await page.fill(".panel [type=search]", "max_iterations")
        await page.click("[aria-label='Change: agent.max_iterations']")
        await page.fill(".setting input", "many")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".failure >> text=agent.max_iterations")
        await page.fill(".setting input", "7")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".sides >> text=200")
        await page.click(".setting .send")
        await page.wait_for_selector("text=Restart Kore to use it.")
        # A change that extends Kore's permissions is confirmed with both values on the screen.
        await page.fill(".panel [type=search]", "security.sandbox")
        await page.click("[aria-label='Change: security.sandbox']")
        await page.select_option(".setting select", "none")
        await page.click(".setting .send")
        await page.wait_for_selector(".sides")
        assert await page.is_disabled(".setting .send")
        await page.check(".widens input")
        # Another program changes the file in the meantime.
        content = json.loads((tmp_path / "config.json").read_text())
        content["agent"]["max_tokens"] = 500
        (tmp_path / "config.json").write_text(json.dumps(content))
        await page.click(".setting .send")
        await page.wait_for_selector(".failure >> text=was changed meanwhile")
        await page.click(".failure >> text=Cancel")
        await page.click(".setting .send")
        await page.check(".widens input")
        await page.click(".setting .send")
        await page.wait_for_selector("tr:has-text('security.sandbox') code >> text=none")
        # A secret is set and not shown again.
        await page.fill("[placeholder='model_list.NAME.api_key']", "transcription.api_key")
        await page.press("[placeholder='model_list.NAME.api_key']", "Enter")
        await page.fill(".setting [type=password]", "sesame-opens")
        await page.click(".setting .send")
        await page.wait_for_selector("text=kept in secrets.json")
        await page.click(".setting .send")
        await page.wait_for_selector(".panel:not(:has(.setting))")
        assert "sesame" not in await page.content()
        assert "sesame" in (tmp_path / "secrets.json").read_text()
        document = json.loads((tmp_path / "config.json").read_text())
        assert document["agent"] == {
            "model": "offline/echo",
            "max_iterations": 7,
            "max_tokens": 500,
        }


async def test_person_gets_another_role(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        await page.click(".panels >> text=People and roles")
        await page.click(".role >> text=guest")
        assert "web_fetch" in await page.inner_text(".role[open]")
        who = "[placeholder^='CHANNEL:ID']"
        await page.fill(who, "somebody")
        await page.press(who, "Enter")
        await page.wait_for_selector(".toast >> text=access.roles")
        await page.fill(who, "telegram:77")
        await page.select_option("select[aria-label=Role]", "guest")
        await page.press(who, "Enter")
        await page.wait_for_selector(".sides >> text=guest")
        await page.check(".widens input")
        await page.click(".setting .send")
        await page.wait_for_selector("text=Restart Kore to use it.")
        document = json.loads((tmp_path / "config.json").read_text())
        assert document["access"]["roles"] == {"telegram:77": "guest"}
