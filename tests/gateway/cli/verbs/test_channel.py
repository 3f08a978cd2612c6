"""`kore channel` against a fake Bot API: by hand in a terminal, and from a script."""

import asyncio
import json
import signal
import subprocess
from pathlib import Path

import pytest

from gateway.control.client import ControlClient
from tests.fakes.bot_api import TOKEN, BotApi
from tests.gateway.cli.console.terminal import kore_there
from tests.gateway.cli.kore import kore
from tests.gateway.cli.verbs.channel_setup import CODE, code_in, config, surroundings

VARIABLE = "TELEGRAM_BOT_TOKEN"
SECRET = TOKEN.partition(":")[2]


async def ran(
    api: BotApi, home: Path, *words: str, stdin: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    environ = surroundings(api, **more)
    result = await asyncio.to_thread(
        kore, "channel", *words, home=home, environ=environ, stdin=stdin
    )
    assert SECRET not in result.stdout + result.stderr
    return result


async def test_typed_token_is_checked_stored_separately_and_never_shown(
    tmp_path: Path, bot_api: BotApi
) -> None:
    home = tmp_path / "h"
    home.mkdir()
    (home / "config.json").write_text('{"telegram": {"allow_from": []}, "limits": {}}')
    async with kore_there(
        home, "channel", "add", "telegram", environ=surroundings(bot_api)
    ) as terminal:
        await terminal.see("Token (hidden while you paste")
        terminal.type("no token\r")
        await terminal.see("this is not a bot token; expected something like 123456789:AAF0…")
        await terminal.see("Token (hidden while you paste")
        terminal.type("99999:a-token-that-nobody-knows\r")
        await terminal.see("Telegram rejected this token")
        await terminal.see("Token (hidden while you paste")
        assert not terminal.echoes()
        assert not (home / "secrets.json").exists()
        terminal.type(f"{TOKEN}\r")
        await terminal.see("@kore_test_bot is connected")
        code = await code_in(terminal)
        await bot_api.user_says(66, "/start guessed")
        await terminal.see("Person 66 (telegram:66) wrote without the link")
        await bot_api.user_says(77, f"/start {code}")
        await terminal.see("Person 77 (telegram:77) is now the owner.")
        assert await terminal.ended() == 0
        assert SECRET not in terminal.text
    assert config(home) == {
        "telegram": {"allow_from": [], "enabled": True, "token": f"${{{VARIABLE}}}"},
        "limits": {},
    }
    assert json.loads((home / "secrets.json").read_text()) == {VARIABLE: TOKEN}
    assert (home / "secrets.json").stat().st_mode & 0o777 == 0o600
    assert (
        "You're approved, and you are my owner. /help lists the commands" in bot_api.answers(77)[-1]
    )
    assert not any(
        "You're approved, and you are my owner. /help lists the commands" in text
        for text in bot_api.answers(66)
    )


async def test_ctrl_c_keeps_the_bot_and_its_link(tmp_path: Path, bot_api: BotApi) -> None:
    home, environ = tmp_path / "h", surroundings(bot_api, TELEGRAM_BOT_TOKEN=TOKEN)
    async with kore_there(home, "channel", "add", "telegram", environ=environ) as terminal:
        await terminal.see("Use the token in TELEGRAM_BOT_TOKEN?")
        terminal.type("\r")
        code = await code_in(terminal)
        await terminal.interrupt("It has no owner yet. The link is still valid: start")
        assert await terminal.ended() == 0
    assert not (home / "secrets.json").exists()
    async with kore_there(home, "gateway", environ=environ):
        await bot_api.user_says(77, f"/start {code}")
        await bot_api.wait_for(lambda: bot_api.answers(77), timeout_s=30)
    assert (
        "You're approved, and you are my owner. /help lists the commands" in bot_api.answers(77)[-1]
    )


async def test_running_gateway_creates_the_link(tmp_path: Path, bot_api: BotApi) -> None:
    home, environ = tmp_path / "h", surroundings(bot_api)
    async with kore_there(home, "gateway", environ=environ) as without:
        await without.see("is running")
        async with kore_there(home, "channel", "add", "telegram", environ=environ) as terminal:
            await terminal.see("Token (hidden while you paste")
            terminal.type(f"{TOKEN}\r")
            await terminal.see("already running without this account")
            without.process.send_signal(signal.SIGINT)
            assert await without.ended() == 0
            async with kore_there(home, "gateway", environ=environ):
                code = await code_in(terminal)
                await bot_api.user_says(77, f"/start {code}")
                await terminal.see("is now the owner.")
                client = await ControlClient.connect(home / "kore.sock")
                assert client is not None
                assert (await client.list_people())["owner"] == "telegram:77"


@pytest.mark.parametrize("way", ["stdin", "variable"])
async def test_script_provides_the_token_and_gets_the_link(
    way: str, tmp_path: Path, bot_api: BotApi
) -> None:
    home = tmp_path / "h"
    words = ["add", "telegram", "--no-wait"]
    if way == "stdin":
        result = await ran(bot_api, home, *words, stdin=f"{TOKEN}\n")
    else:
        result = await ran(bot_api, home, *words, "--token-env", "OTHER", OTHER=TOKEN)
    assert result.returncode == 0, result.stderr
    assert CODE.search(result.stdout)
    assert (home / "secrets.json").exists() == (way == "stdin")
    listed = await ran(bot_api, home, "list", "--json", OTHER=TOKEN)
    assert json.loads(listed.stdout) == [
        {"channel": "telegram", "account": "123456", "state": "not running", "trouble": None}
    ]
    tested = await ran(bot_api, home, "test", "telegram", "--json", OTHER=TOKEN)
    assert json.loads(tested.stdout)["link"] == "https://t.me/kore_test_bot"


async def test_missing_terminal_is_explained(tmp_path: Path, bot_api: BotApi) -> None:
    result = await ran(bot_api, tmp_path / "h", "add", "telegram")
    assert result.returncode == 2
    assert "--token-env" in result.stderr
    assert not (tmp_path / "h").exists()


async def test_second_bot_is_added_and_removed_separately(tmp_path: Path, bot_api: BotApi) -> None:
    home = tmp_path / "h"
    further = ["add", "telegram", "--name", "work", "--no-wait"]
    early = await ran(bot_api, home, *further, stdin=f"{TOKEN}\n")
    assert early.returncode == 2
    assert "no account is connected yet" in early.stderr
    await ran(bot_api, home, "add", "telegram", "--no-wait", stdin=f"{TOKEN}\n")
    added = await ran(bot_api, home, *further, stdin=f"{TOKEN}\n")
    assert added.returncode == 0, added.stderr
    assert json.loads((home / "secrets.json").read_text()) == {
        VARIABLE: TOKEN,
        f"{VARIABLE}_WORK": TOKEN,
    }
    listed = await ran(bot_api, home, "list", "--json")
    assert [load["account"] for load in json.loads(listed.stdout)] == ["123456", "work"]
    removed = await ran(bot_api, home, "remove", "telegram", "--name", "work", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert json.loads((home / "secrets.json").read_text()) == {VARIABLE: TOKEN}
    await ran(bot_api, home, "remove", "telegram", "--yes")
    assert json.loads((home / "secrets.json").read_text()) == {}
    assert (await ran(bot_api, home, "list", "--json")).stdout.strip() == "[]"
    again = await ran(bot_api, home, "remove", "telegram", "--yes")
    assert again.returncode == 1
    assert "this account is not connected" in again.stderr


async def test_adding_a_channel_keeps_the_owner(tmp_path: Path, bot_api: BotApi) -> None:
    words = ["add", "telegram"]
    result = await ran(
        bot_api, tmp_path / "h", *words, stdin=f"{TOKEN}\n", KORE_ACCESS_OWNER="telegram:5"
    )
    assert result.returncode == 0, result.stderr
    assert "telegram:5 is now the owner." in result.stdout
    assert "?start=" not in result.stdout


async def test_connection_problem_is_reported(tmp_path: Path, bot_api: BotApi) -> None:
    for address, reason in (
        ("http://127.0.0.1:9", "could not connect to"),
        ("http://no-such-host.invalid", ""),
    ):
        result = await ran(
            bot_api,
            tmp_path / "h",
            *["add", "telegram"],
            stdin=f"{TOKEN}\n",
            KORE_TELEGRAM_BASE_URL=address,
        )
        assert result.returncode == 1
        assert reason in result.stderr
