"""Errors at startup are reported in a sentence, and cause no further damage."""

import json
import sqlite3

import pytest

from tests.fakes.bot_api import BotApi
from tests.fakes.faults import status
from tests.gateway.end_to_end.gateway_process import OWNER, GatewayProcess
from tests.postgres_server import only_sqlite


async def test_invalid_token_is_reported_and_the_process_stays(alone: GatewayProcess) -> None:
    alone.configure({"telegram": {"token": "123456:another-token"}})
    await alone.launch()
    await alone.until(lambda: "receives nothing" in alone.log_text())
    channel = await alone.until_channel("refused")
    assert "telegram.token" in channel["last_error"]
    ran = await alone.kore("agent", "-m", "are you there?")
    assert (ran.code, ran.out.strip()) == (0, "echo: are you there?")
    assert "another-token" not in alone.log_text() + str(channel)
    await alone.stop()


async def test_startup_log_names_running_parts(alone: GatewayProcess) -> None:
    alone.forked = False
    async with alone:
        await alone.until(lambda: "is running: model" in alone.output())
        assert "telegram:123456" in alone.output()
        assert "health and metrics at http://127.0.0.1:" in alone.output()
        shown = await alone.kore("status")
        assert f"openai/fake at {alone.model.base_url}" in shown.out


async def test_other_poller_is_reported_in_the_status(alone: GatewayProcess) -> None:
    await alone.start()
    alone.api.fail("getUpdates", status(409))
    await alone.api.user_says(7, "hi")
    await alone.until(lambda: alone.api.answers(7))
    channel = await alone.until_channel("conflict")
    assert "another program polls" in channel["last_error"]
    shown = await alone.kore("status")
    assert "conflict" in shown.out
    # The pause after a conflict does not delay a stop.
    await alone.stop()


async def test_startup_without_a_network_waits_and_then_answers(
    alone: GatewayProcess, bot_api: BotApi
) -> None:
    bot_api.fail("*", status(502), times=3)
    async with alone:
        assert await alone.answers_to(7, "hi") == ["echo: hi"]


async def test_unavailable_model_is_reported_in_the_chat(alone: GatewayProcess) -> None:
    nobody = {"model_name": "stand-in", "model": "openai/fake", "api_key": "k"}
    config = json.loads(alone.config.read_text())
    config["model_list"] = [{**nobody, "api_base": "http://127.0.0.1:9/v1"}]
    alone.config.write_text(json.dumps(config))
    async with alone:
        (answer,) = await alone.answers_to(OWNER, "hi")
        assert answer.startswith("⚠️ I could not answer: ")
        assert "(unavailable)" in answer
        assert "/help - " in (await alone.answers_to(OWNER, "/help"))[-1]


@only_sqlite
async def test_damaged_database_is_left_unchanged(alone: GatewayProcess) -> None:
    await alone.start()
    await alone.answers_to(7, "hi")
    # The whole file is checked only after an unclean shutdown.
    await alone.kill()
    file = alone.database
    # The write-ahead log next to the file would repair the damage, so merge it into the file first.
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = file.read_bytes()
    connection.execute("PRAGMA user_version = 9999")
    connection.close()
    damaged = {
        "newer": file.read_bytes(),
        "cut": whole[:10_000],
        "garbage": b"this is no database" * 1000,
    }
    for damage, content in damaged.items():
        file.write_bytes(content)
        printed = len(alone.output())
        await alone.launch()
        assert await alone.ended() == 1, damage
        texts = alone.output()[printed:].strip().splitlines()[-2:]
        assert texts[0].startswith("kore: "), texts
        assert str(file) in texts[0], texts
        assert file.read_bytes() == content, damage
    file.write_bytes(whole)
    await alone.start()
    assert await alone.answers_to(7, "again") == ["echo: hi", "echo: again"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "config.json"),
        ('{"telegram": {"enabled": true}}', "telegram.token"),
        ('{"agent": {"model": "nobody/knows"}}', "nobody"),
    ],
    ids=["syntax", "token", "model"],
)
async def test_invalid_config_is_one_line(alone: GatewayProcess, text: str, message: str) -> None:
    alone.config.write_text(text)
    ran = await alone.kore("gateway")
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert len(ran.err.splitlines()) <= 2, ran.err


async def test_occupied_port_is_one_line(alone: GatewayProcess) -> None:
    alone.configure({"http": {"port": alone.api.port}})
    ran = await alone.kore("gateway")
    assert (ran.code, ran.out) == (2, "")
    assert "http.port" in ran.err
