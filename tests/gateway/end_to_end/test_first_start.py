"""First start without a configuration file: from the environment alone, or with instructions."""

import asyncio
import json
import signal
from pathlib import Path

from tests.fakes.bot_api import TOKEN, BotApi
from tests.fakes.model import ModelServer
from tests.gateway.cli.console.terminal import kore_there
from tests.gateway.cli.kore import kore

KEY = "sk-first-start"


def test_missing_configuration_is_explained(tmp_path: Path) -> None:
    done = kore("gateway", home=tmp_path / "h")
    assert done.returncode == 2
    assert "nothing is configured yet" in done.stderr
    assert "kore init" in done.stderr
    assert "KORE_TELEGRAM_TOKEN" in done.stderr


async def test_environment_alone_suffices(tmp_path: Path, bot_api: BotApi) -> None:
    async with ModelServer(api_key=KEY) as model:
        entry = {"model_name": "default", "model": "openai/fake", "api_base": model.url}
        environ = {
            "KORE_TELEGRAM_TOKEN": TOKEN,
            "KORE_TELEGRAM_BASE_URL": bot_api.url,
            "KORE_MODEL_LIST": json.dumps([{**entry, "api_key": "${OPENAI_API_KEY}"}]),
            "OPENAI_API_KEY": KEY,
            "KORE_ACCESS_OWNER": "77",
            "KORE_HTTP_PORT": "0",
        }
        async with kore_there(tmp_path / "h", "gateway", environ=environ) as terminal:
            await bot_api.user_says(77, "hello")
            await bot_api.wait_for(lambda: "echo: hello" in bot_api.answers(77), timeout_s=30)
            terminal.process.send_signal(signal.SIGINT)
            assert await terminal.ended() == 0
    assert not (tmp_path / "h" / "config.json").exists()


async def test_disabled_channel_overrides_a_token_in_the_environment(tmp_path: Path) -> None:
    home = tmp_path / "h"
    home.mkdir()
    (home / "config.json").write_text('{"telegram": {"enabled": false}}')
    done = await asyncio.to_thread(
        kore, "config", "get", "telegram.enabled", home=home, environ={"KORE_TELEGRAM_TOKEN": TOKEN}
    )
    assert done.stdout.strip() == "false"
