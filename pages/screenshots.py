"""`make screenshots`: screenshots of running programs, written to docs/pictures.

The terminal is real (tmux) and runs `kore agent`. A chat is drawn from the messages of a real
gateway to the fake Bot API (`pages/phone.py`). Models are scripted.
"""

import asyncio
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from pages.phone import draw
from tests.fakes.bot_api import BotApi
from tests.fakes.bot_chats import ChatMessage
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.gateway_process import KEY, OWNER, GatewayProcess

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
_SOCKET = f"kore-pictures-{os.getpid()}"
_TIMEOUT_S = 40.0
# Comments and fonts; browsers would load the fonts from another host.
_ELSEWHERE = re.compile(r"<!--.*?-->\s*|@font-face \{\{.*?\}\}\s*", re.DOTALL)
_FORMAT = _ELSEWHERE.sub("", CONSOLE_SVG_FORMAT).replace(
    "Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace"
)
_ANSWER = """Two things are left for **1.4**:

| task | who | state |
| --- | --- | --- |
| changelog | Ann | done |
| tag | Bob | open |
| website | you | open |

The rest is in `release.md`."""
_CHECKLIST = "# Release 1.4\n- [x] changelog\n- [ ] tag\n- [ ] website\n"

_ADVICE = """`average` divides by the number of orders, which is 0 for a new customer:

| input | expected | result |
| --- | --- | --- |
| `[]` | 0 | **ZeroDivisionError** |
| `[4, 8]` | 6 | 6 |
"""
_SOURCE = """def average(orders: list[float]) -> float:
    return sum(orders) / len(orders)
"""
_EDIT = {
    "path": "orders.py",
    "old_string": "    return sum(orders) / len(orders)",
    "new_string": "    return sum(orders) / len(orders) if orders else 0.0",
}
_CALLER = """from orders import average

print(average([12.5, 7.5]))
"""
_BREAKING = {
    "path": "orders.py",
    "old_string": "def average(orders: list[float]) -> float:",
    "new_string": "def average(orders: list[float], currency: str) -> float:",
}
_MENDING = {"path": "report.py", "old_string": "7.5])", "new_string": '7.5], "EUR")'}


class Terminal:
    """A shell in tmux with a fixed number of columns."""

    def __init__(self, folder: Path, columns: int, rows: int) -> None:
        self._columns = columns
        environ = {
            "HOME": str(folder),
            "KORE_HOME": str(folder / ".kore"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "PS1": "$ ",
            "LANG": "C.UTF-8",
        }
        words = [f"{name}={value}" for name, value in environ.items()]
        size = ("-x", str(columns), "-y", str(rows))
        shell = ("env", "-i", "TERM=tmux-256color", *words, "bash", "--norc", "--noprofile")
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(folder), *shell)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)
        self._tmux("send-keys", "Enter")

    def until(self, words: str) -> str:
        """Return the visible text with its colours, once it contains these words."""
        deadline = time.monotonic() + _TIMEOUT_S
        while words not in (seen := self._tmux("capture-pane", "-e", "-p")):
            if time.monotonic() > deadline:
                raise SystemExit(f"{words!r} was never seen; this was:\n{seen}")
            time.sleep(0.1)
        time.sleep(0.5)  # wait for pending output
        return self._tmux("capture-pane", "-e", "-p").rstrip()

    def close(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-L", _SOCKET, *words], capture_output=True, check=True)
        return done.stdout.decode()


def save(name: str, title: str, shown: Sequence[Text], columns: int) -> None:
    console = Console(
        record=True,
        width=columns,
        file=io.StringIO(),
        color_system="truecolor",
        force_terminal=True,
    )
    for one in shown:
        console.print(one)
    text = console.export_svg(title=title, code_format=_FORMAT, unique_id=f"kore-{name}")
    (PICTURES / f"{name}.svg").write_text(text, encoding="utf-8")
    print(f"docs/pictures/{name}.svg")


async def terminal(folder: Path) -> None:
    """Record a conversation with an approval, and verbs."""
    (folder / "orders.py").write_text(_SOURCE)
    async with ModelServer(api_key=KEY) as model:
        _configure(folder, model)
        model.script(
            ReplyScript("Let me look.", tool_calls=(Call("read_file", {"path": "orders.py"}),)),
            ReplyScript(_ADVICE, tool_calls=(Call("edit_file", _EDIT),)),
            "Done: `average([])` is 0.0 now.",
        )
        await asyncio.to_thread(_type_and_look, folder)


def _configure(folder: Path, model: ModelServer) -> None:
    entry = {"model_name": "scripted", "model": "openai/scripted"}
    entry |= {"api_base": model.base_url, "api_key": KEY}
    config = {"agent": {"model": "scripted"}, "model_list": [entry]}
    config["security"] = {"trusted_folders": [str(folder)]}
    (folder / ".kore").mkdir(mode=0o700)
    file = folder / ".kore" / "config.json"
    file.touch(mode=0o600)
    file.write_text(json.dumps(config))


async def language_server(folder: Path) -> None:
    """Record an edit that breaks another file, and its fix; needs a Python language server."""
    (folder / "orders.py").write_text(_SOURCE)
    (folder / "report.py").write_text(_CALLER)
    async with ModelServer(api_key=KEY) as model:
        _configure(folder, model)
        callers = {"operation": "references", "path": "orders.py", "symbol": "average"}
        look = {"operation": "diagnostics", "path": "report.py"}
        model.script(
            ReplyScript("Who calls it?", tool_calls=(Call("lsp", callers), Call("lsp", look))),
            ReplyScript(tool_calls=(Call("edit_file", _BREAKING),)),
            ReplyScript("report.py has to say it, too.", tool_calls=(Call("edit_file", _MENDING),)),
            "Done: average needs a currency, and the report names it.",
        )
        await asyncio.to_thread(_type_and_edit, folder)


def _type_and_edit(folder: Path) -> None:
    shell = Terminal(folder, 86, 38)
    try:
        shell.until("$")
        shell.type("clear; kore agent -y --cwd .")
        shell.until("/exit")
        shell.type("average() must know the currency.")
        seen = shell.until("Done:")
        save("language-server", "kore agent", [Text.from_ansi(_at_home(seen, folder))], 86)
    finally:
        shell.close()


def _type_and_look(folder: Path) -> None:
    shell = Terminal(folder, 86, 28)
    try:
        shell.until("$")
        shell.type("kore agent --cwd .")
        shell.until("/exit")
        shell.type("average() crashes for new customers. Fix it.")
        seen = shell.until("[y]")
        save("terminal", "kore agent", [Text.from_ansi(_at_home(seen, folder))], 86)
    finally:
        shell.close()
    shell = Terminal(folder, 86, 28)
    try:
        shell.until("$")
        # Hide the address of the scripted model, which has no meaning for readers.
        shell.type("clear; KORE_AGENT_MODEL=offline/echo kore doctor")
        seen = shell.until("clock")
        save("doctor", "kore doctor", [Text.from_ansi(_at_home(seen, folder))], 86)
    finally:
        shell.close()


def _at_home(seen: str, folder: Path) -> str:
    """Replace the names of temporary folders, which differ each time."""
    programs = str(Path(sys.executable).parent)
    return seen.replace(str(folder), "/home/ann/shop").replace(programs, "/usr/local/bin")


def save_chat(name: str, shown: Sequence[ChatMessage]) -> None:
    (PICTURES / f"{name}.svg").write_text(draw(shown, "Kore"), encoding="utf-8")
    print(f"docs/pictures/{name}.svg")


async def telegram(folder: Path) -> None:
    """Record a question, an approval with its buttons, and a reminder."""
    async with BotApi() as api, ModelServer(api_key=KEY) as model:
        gateway = GatewayProcess(folder, api, model)
        async with gateway:
            model.script(_ANSWER)
            await gateway.told(OWNER, "What's left before the release?")
            (gateway.workspace / "release.md").write_text(_CHECKLIST)
            tick = {"path": "release.md", "old_string": "[ ] tag", "new_string": "[x] tag"}
            model.script(ReplyScript(tool_calls=(Call("edit_file", tick),)), "Done.")
            await api.user_says(OWNER, "Bob has just tagged it, tick it off")
            await gateway.until(lambda: any(one.reply_markup for one in api.chat(OWNER)))
            save_chat("telegram", api.chat(OWNER))
            await api.user_says(OWNER, "/stop")
            await gateway.idle()
            before = len(api.chat(OWNER))
            await gateway.told(OWNER, "/cron add tomorrow 9:00 Europe/Berlin call the dentist")
            await gateway.told(OWNER, "/cron run 1")
            await gateway.until(
                lambda: any("⏰ call" in one for one in api.answers(OWNER)),
            )
            await gateway.told(OWNER, "/cron")
            save_chat("cron", api.chat(OWNER)[before:])


def main() -> int:
    if shutil.which("tmux") is None:
        print("pictures of a terminal need tmux", file=sys.stderr)
        return 1
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kore-") as name:
        folder = Path(name)
        for part in ("notes", "code", "telegram"):
            (folder / part).mkdir()
        asyncio.run(terminal(folder / "notes"))
        asyncio.run(language_server(folder / "code"))
        asyncio.run(telegram(folder / "telegram"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
