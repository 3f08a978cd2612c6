"""Home and settings in which `kore channel` sets up a bot."""

import json
import re
from pathlib import Path

from tests.fakes.bot_api import BotApi
from tests.gateway.cli.console.terminal import Terminal

CODE = re.compile(r"\?start=([A-Za-z0-9_-]+)")


def surroundings(api: BotApi, **more: str) -> dict[str, str]:
    place = {
        "KORE_TELEGRAM_BASE_URL": api.url,
        "KORE_AGENT_MODEL": "offline/echo",
        "KORE_HTTP_PORT": "0",
    }
    return {**place, "PYTHONUTF8": "1", **more}


async def code_in(terminal: Terminal) -> str:
    await terminal.see("?start=")
    await terminal.see("Valid for one")
    return CODE.findall(terminal.text)[-1]


def config(home: Path) -> dict[str, object]:
    content = json.loads((home / "config.json").read_text())
    assert isinstance(content, dict)
    return content
