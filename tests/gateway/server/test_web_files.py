"""Files attached to and sent by a conversation in the browser."""

import os
import signal
from pathlib import Path
from zipfile import ZipFile

from agent.settings import ToolSettings
from agent.tools.creative.asset_export import AssetExport
from agent.types import ToolCall, assistant
from tests.fakes.model import ModelServer
from tests.gateway.parts import tool_call
from tests.gateway.server.browser import (
    NEEDS_CHROMIUM,
    browser_page,
    log_in,
    log_in_by_token,
    say,
)
from tests.gateway.server.processes import KEY, Machine, free_port
from tests.gateway.server.served import served

pytestmark = NEEDS_CHROMIUM

HOSTILE = "<img src=x onerror=alert(1)>.txt"
DROP = """([name, size]) => {
  const data = new DataTransfer()
  data.items.add(new File([new Uint8Array(size)], name, { type: "application/pdf" }))
  const over = new DragEvent("dragover", { dataTransfer: data, bubbles: true, cancelable: true })
  document.body.dispatchEvent(over)
}"""
DROPPED = DROP.replace("dragover", "drop")


async def test_files_are_chosen_dropped_and_read_by_the_agent(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        large = os.urandom(2_500_000)
        chosen = [
            {"name": HOSTILE, "mimeType": "text/plain", "buffer": b"words of strangers"},
            {"name": "data.bin", "mimeType": "", "buffer": large},
            {"name": "odd.heic", "mimeType": "image/heic", "buffer": b"no picture at all"},
        ]
        await page.set_input_files(".attach input", chosen)
        await page.evaluate(DROP, ["dropped.pdf", 3])
        await page.wait_for_selector(".drop")
        await page.evaluate(DROPPED, ["dropped.pdf", 3])
        await page.wait_for_selector(".files li:nth-child(4):not(:has(progress))")
        assert await page.locator(".drop").count() == 0
        await page.click(".files li:nth-child(3) button")
        await say(page, "look")
        await page.wait_for_selector("article.kore")
        shown = await page.locator(".attachment").all_inner_texts()
        assert [item.split(" ", 1)[1] for item in shown] == [
            f"{HOSTILE} 18 bytes",
            "data.bin 2.4 MB",
            "dropped.pdf 3 bytes",
        ]
        ((session,),) = await server.parts.stored("session", "id")
        (message, *_) = await server.parts.service.load_messages(session)
        inbox = server.parts.workspace / "inbox"
        results = {path.read_bytes() for path in inbox.iterdir()}
        assert results == {b"words of strangers", large, b"no picture at all", bytes(3)}
        assert all(f"inbox/{path.name}" in str(message) for path in inbox.glob("data-*"))


async def test_too_large_file_is_rejected_in_a_sentence(tmp_path: Path) -> None:
    async with served(tmp_path) as server, browser_page() as page:
        await log_in(page, server)
        large = tmp_path / "film.mkv"
        with large.open("wb") as file:
            file.truncate(20 * 2**20 + 1)
        await page.set_input_files(".attach input", large)
        await page.wait_for_selector(".files li.bad >> text=files may have 20.0 MB")
        await page.fill(".composer textarea", "look")
        assert await page.is_disabled(".send")
        await page.click(".files button")
        assert await page.is_enabled(".send")
        assert not (server.parts.workspace / "inbox").exists()


async def test_sent_files_are_saved(tmp_path: Path) -> None:
    paths = [f"out/{HOSTILE}", "report.html"]
    call = tool_call("1", "send_file", paths=paths, caption="both <b>here</b>")
    failing = tool_call("2", "send_file", paths=["../secret.txt"])
    script = [assistant("", (call,)), assistant("", (failing,)), "Here they are."]
    async with served(tmp_path, script) as server, browser_page(accept_downloads=True) as page:
        (tmp_path / "secret.txt").write_text("secret")
        (server.parts.workspace / "out").mkdir()
        page_of_strangers = b"<script>alert(1)</script>" * 100_000
        (server.parts.workspace / "report.html").write_bytes(page_of_strangers)
        (server.parts.workspace / paths[0]).write_text("hostile")
        await log_in(page, server)
        await say(page, "send them")
        await page.wait_for_selector("text=Here they are.")
        assert await page.locator(".sent-file").count() == 2
        assert await page.inner_text(".sent-files p") == "both <b>here</b>"
        async with page.expect_download() as saving:
            await page.click(".sent-file >> text=report.html")
        saved = await saving.value
        assert saved.suggested_filename == "report.html"
        assert Path(await saved.path()).read_bytes() == page_of_strangers
        # A file that no longer exists.
        (server.parts.workspace / paths[0]).unlink()
        await page.click(f".sent-file >> text={HOSTILE}")
        await page.wait_for_selector("text=it no longer exists")


async def test_created_files_are_saved(tmp_path: Path) -> None:
    pack = ToolCall("1", "asset_export", {"paths": ["out"], "name": "all"}, "")
    script = [assistant("", (pack,)), "Packed."]
    tools = (AssetExport(ToolSettings()),)
    async with (
        served(tmp_path, script, tools=tools) as server,
        browser_page(accept_downloads=True) as page,
    ):
        parts = server.parts
        (parts.workspace / "out").mkdir()
        (parts.workspace / "out" / "a.txt").write_text("words")
        await log_in(page, server)
        await say(page, "/auto")
        await say(page, "pack it")
        await page.wait_for_selector("text=Packed.")
        async with page.expect_download() as saving:
            await page.click(".sent-file >> text=all.zip")
        saved = await saving.value
        assert saved.suggested_filename == "all.zip"
        with ZipFile(await saved.path()) as archive:
            assert archive.read("out/a.txt") == b"words"


async def test_kill_during_an_upload_loses_nothing(tmp_path: Path) -> None:
    async with ModelServer(api_key=KEY) as model, browser_page() as page:
        machine, words = Machine(tmp_path, model), ("--listen-addr", f"127.0.0.1:{free_port()}")
        data = os.urandom(15 * 2**20)
        file = tmp_path / "data.bin"
        file.write_bytes(data)
        inbox = machine.home / "workspace" / "inbox"
        async with machine.serving(*words) as process:
            await log_in_by_token(page, machine)
            # Pass a path, because the browser's driver takes seconds to transfer a buffer of this
            # size.
            await page.set_input_files(".attach input", file)
            await page.wait_for_selector(".files progress[value]")
            process.send_signal(signal.SIGKILL)
            await process.wait()
        assert not list(inbox.glob("data-*"))
        async with machine.serving(*words):
            await page.wait_for_selector(".files li:not(:has(progress)):not(.bad)", timeout=60_000)
            (result,) = inbox.glob("data-*")
            assert result.read_bytes() == data
