"""`make screenshots`: pictures of what people see, taken of running programs, into docs/pictures.

The terminal is a real one (tmux) with `kore agent` in it. Of Telegram the text and the entities
are shown that a real gateway has sent to the stand-in of the Bot API. Models are scripted.
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
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from tests.fakes.bot_api import BotApi
from tests.fakes.bot_chats import Shown
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.end_to_end.asking import write
from tests.gateway.end_to_end.gateway_process import KEY, OWNER, GatewayProcess

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
_SOCKET = f"kore-pictures-{os.getpid()}"
_PATIENCE_S = 40.0
# Fonts would be loaded from another host.
_ELSEWHERE = re.compile(r"<!--.*?-->\s*|@font-face \{\{.*?\}\}\s*", re.DOTALL)
_FORMAT = _ELSEWHERE.sub("", CONSOLE_SVG_FORMAT).replace(
    "Fira Code, monospace", "ui-monospace, Menlo, Consolas, monospace"
)
_STYLES = {
    "bold": "bold", "italic": "italic", "underline": "underline", "strikethrough": "strike",
    "code": "cyan", "pre": "cyan", "text_link": "blue underline", "blockquote": "dim",
    "bot_command": "blue", "url": "blue",
}  # fmt: skip
_ANSWER = """**Three things** before the release:

| what | who | state |
| --- | --- | --- |
| changelog | Ann | done |
| tag | Bob | waits |

```python
print("ship it")
```

See [the list](https://example.org/list)."""

_ADVICE = """Ann does not take lactose, your memory says. On the list:

| item | for Ann | instead |
| --- | --- | --- |
| milk | **no** | oat milk |
| bread | yes | |
"""
_EDIT = {"path": "list.txt", "old_string": "milk", "new_string": "oat milk"}


class Terminal:
    """A shell in tmux, so many columns wide."""

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
        """What is seen, with its colours, once these words are."""
        deadline = time.monotonic() + _PATIENCE_S
        while words not in (seen := self._tmux("capture-pane", "-e", "-p")):
            if time.monotonic() > deadline:
                raise SystemExit(f"{words!r} was never seen; this was:\n{seen}")
            time.sleep(0.1)
        time.sleep(0.5)  # what is still being painted
        return self._tmux("capture-pane", "-e", "-p").rstrip()

    def close(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-L", _SOCKET, *words], capture_output=True, check=True)
        return done.stdout.decode()


def save(name: str, title: str, shown: Sequence[Text | Panel], columns: int) -> None:
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
    """A conversation with an approval, and verbs."""
    (folder / "list.txt").write_text("milk\nbread\n")
    async with ModelServer(api_key=KEY) as model:
        entry = {"model_name": "scripted", "model": "openai/scripted"}
        entry |= {"api_base": model.base_url, "api_key": KEY}
        config = {"agent": {"model": "scripted"}, "model_list": [entry]}
        (folder / ".kore").mkdir(mode=0o700)
        file = folder / ".kore" / "config.json"
        file.touch(mode=0o600)
        file.write_text(json.dumps(config))
        model.script(
            ReplyScript("Let me look.", tool_calls=(Call("read_file", {"path": "list.txt"}),)),
            ReplyScript(_ADVICE, tool_calls=(Call("edit_file", _EDIT),)),
            "Done: `list.txt` says oat milk now.",
        )
        await asyncio.to_thread(_type_and_look, folder)


def _type_and_look(folder: Path) -> None:
    shell = Terminal(folder, 100, 31)
    try:
        shell.type("kore agent --cwd .")
        shell.until("/exit")
        shell.type("Is there anything on my shopping list that Ann must not drink? Mend it.")
        seen = shell.until("[y]")
        save("terminal", "kore agent", [Text.from_ansi(seen)], 100)
        shell.type("y")
        shell.until("Done:")
        shell.type("/exit")
        shell.until("To go on later")
        shell.type("clear; kore cron add 'daily 09:00 Europe/Berlin' 'stand up'; kore cron list")
        shell.until("told at")
        # The address of the scripted model means nothing to anybody.
        shell.type("clear; KORE_AGENT_MODEL=offline/echo kore doctor")
        save("doctor", "kore doctor", [Text.from_ansi(shell.until("disk"))], 100)
    finally:
        shell.close()


def bubble(shown: Shown) -> Panel:
    """A message as it was sent: its text, with its entities laid over it and named below."""
    text = Text(shown.text)
    units = shown.text.encode("utf-16-le")
    named = []
    for entity in shown.entities:
        start = len(units[: 2 * entity["offset"]].decode("utf-16-le"))
        end = len(units[: 2 * (entity["offset"] + entity["length"])].decode("utf-16-le"))
        text.stylize(_STYLES.get(entity["type"], "magenta"), start, end)
        named.append(f"{entity['type']} {entity['offset']}+{entity['length']}")
    rows: list[list[Mapping[str, str]]] = (shown.reply_markup or {}).get("inline_keyboard", [])
    for row in rows:
        text.append("\n" + "  ".join(f"[ {button['text']} ]" for button in row), "bold green")
    who = "Kore" if shown.from_bot else "you"
    below = ", ".join(named) or "no entities"
    return Panel(
        text, title=who, title_align="left", subtitle=below if shown.from_bot else None,
        subtitle_align="left", border_style="green" if shown.from_bot else "blue",
    )  # fmt: skip


async def telegram(folder: Path) -> None:
    """A question, an approval with its buttons, a reminder."""
    async with BotApi() as api, ModelServer(api_key=KEY) as model:
        gateway = GatewayProcess(folder, api, model)
        async with gateway:
            model.script(_ANSWER)
            await gateway.told(OWNER, "What is left before the release?")
            (gateway.workspace / "notes.txt").write_text("old\n")
            model.script(ReplyScript(tool_calls=(write("new\n"),)), "Done.")
            await api.user_says(OWNER, "Bring my notes up to date")
            await gateway.until(lambda: any(one.reply_markup for one in api.chat(OWNER)))
            save("telegram", "Telegram, as it was sent", [*map(bubble, api.chat(OWNER))], 72)
            await api.user_says(OWNER, "/stop")
            await gateway.idle()
            before = len(api.chat(OWNER))
            await gateway.told(OWNER, "/cron add tomorrow 9:00 Europe/Berlin call the dentist")
            await gateway.told(OWNER, "/cron run 1")
            await gateway.until(
                lambda: any("⏰ call" in one for one in api.answers(OWNER)),
            )
            await gateway.told(OWNER, "/cron")
            save("cron", "/cron", [*map(bubble, api.chat(OWNER)[before:])], 72)


def main() -> int:
    if shutil.which("tmux") is None:
        print("pictures of a terminal need tmux", file=sys.stderr)
        return 1
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kore-") as name:
        folder = Path(name)
        for part in ("notes", "telegram"):
            (folder / part).mkdir()
        asyncio.run(terminal(folder / "notes"))
        asyncio.run(telegram(folder / "telegram"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
