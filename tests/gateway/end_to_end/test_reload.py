"""Configuration changes while the gateway runs."""

import asyncio
import json
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

from tests.fakes.model_script import ReplyScript
from tests.gateway.end_to_end.config_file import change_section
from tests.gateway.end_to_end.gateway_process import OWNER, TIMEOUT_S, GatewayProcess


async def until(reached: Callable[[], Awaitable[object]], why: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not await reached():
        assert time.monotonic() < deadline, why
        await asyncio.sleep(0.05)


async def config_of(gateway: GatewayProcess) -> dict[str, Any]:
    """Return the reported state of the configuration, once it is watched."""
    deadline = time.monotonic() + TIMEOUT_S
    while (result := (await gateway.status())["config"]) is None:
        assert time.monotonic() < deadline, gateway.log_text()
        await asyncio.sleep(0.05)
    assert isinstance(result, dict)
    return result


async def test_changed_file_takes_effect_without_a_restart(alone: GatewayProcess) -> None:
    async with alone:
        assert await alone.answers_to(7, "hi") == ["echo: hi"]
        change_section(alone, "agent", model="other")

        async def is_other() -> bool:
            return (await alone.status())["model"] == "other"

        await until(is_other, alone.log_text())
        await alone.answers_to(7, "again")
        assert alone.model.requests[-1].body["model"] == "other"


async def test_allowed_senders_are_reloaded(alone: GatewayProcess) -> None:
    async with alone:
        await config_of(alone)
        change_section(alone, "telegram", allow_from=[8])
        # The setting is now in force, through this command or through the gateway's own check of
        # the file.
        ran = await alone.kore("reload", "--json")
        assert set(json.loads(ran.out)["changed"]) <= {"telegram.allow_from"}
        before = len(alone.model.requests)
        await alone.answers_to(7, "let me in")
        assert len(alone.model.requests) == before
        assert await alone.answers_to(8, "hi") == ["echo: hi"]


async def test_restart_required_settings_are_reported(alone: GatewayProcess) -> None:
    async with alone:
        await config_of(alone)
        change_section(alone, "http", port=1)
        change_section(alone, "logging", level="debug")
        ran = await alone.kore("reload")
        assert ran.out.endswith("needs a restart: http.port\n")
        assert (await config_of(alone))["needs_restart"] == "http.port"
        output = alone.output()
        assert "changed: logging.level" in output
        assert "needs a restart: http.port" in output
        change_section(alone, "http", port=0)
        await alone.kore("reload")
        assert (await config_of(alone))["needs_restart"] is None


async def test_invalid_file_keeps_the_last_valid_one_and_notifies_the_owner_once(
    alone: GatewayProcess,
) -> None:
    async with alone:
        await alone.answers_to(OWNER, "hi")
        good = alone.config.read_text()
        alone.config.write_text(good.replace('"model"', '"modl"', 1))

        async def is_told() -> object:
            return (await config_of(alone))["problem"]

        await until(is_told, alone.log_text())
        await alone.until(
            lambda: any(
                "⚠️ config.json has an error; still using the previous settings" in a
                for a in alone.api.answers(OWNER)
            )
        )
        for _ in range(2):
            ran = await alone.kore("reload")
            assert ran.code == 2
            assert 'agent.modl: unknown key; did you mean "model"?' in ran.err
        assert (await alone.answers_to(OWNER, "still there?"))[-1] == "echo: still there?"
        assert alone.output().count("still using the last valid configuration") == 1
        assert (
            sum(
                "⚠️ config.json has an error; still using the previous settings" in a
                for a in alone.api.answers(OWNER)
            )
            == 1
        )
        shown = await alone.kore("status")
        assert "agent.modl" in shown.out
        alone.config.write_text(good)
        assert (await alone.kore("reload")).code == 0
        assert (await config_of(alone))["problem"] is None
        await alone.until(
            lambda: any("Configuration fixed and reloaded" in a for a in alone.api.answers(OWNER))
        )


async def test_invalid_file_is_reported_in_the_language_of_each_recipient(
    alone: GatewayProcess,
) -> None:
    change_section(alone, "agent", language="zh-Hans")
    async with alone:
        await alone.answers_to(OWNER, "/language zh-Hant")
        change_section(alone, "agent", modl="x")
        await alone.until(lambda: any("agent.modl" in a for a in alone.api.answers(OWNER)))
        ran = await alone.kore("reload")
        assert (ran.code, "unknown key" in ran.err) == (2, True)
        assert (await config_of(alone))["problem"].partition("; ")[0].endswith("unknown key")
        await alone.idle()
        (result,) = (a for a in alone.api.answers(OWNER) if "agent.modl" in a)
        assert "未知的鍵" in result
        assert alone.output().count("still using the last valid configuration") == 1
        assert "unknown key" in alone.output()
        assert "未知" not in alone.output()


async def test_start_with_an_invalid_file_is_one_line_and_the_valid_one_can_be_restored(
    alone: GatewayProcess,
) -> None:
    async with alone:
        await alone.answers_to(7, "hi")
        good = alone.config.read_text()
        await alone.until((alone.home / "config.good.json").exists)
    alone.config.write_text("{")
    printed = len(alone.output())
    await alone.launch()
    assert await alone.ended() == 2
    lines = alone.output()[printed:].splitlines()
    assert lines[0].startswith(f"kore: {alone.config}: line 1, column 2: not valid JSON")
    ran = await alone.kore("config", "revert")
    assert ran.code == 0
    assert alone.config.read_text() == good
    assert (alone.home / "config.edit.json").read_text() == "{"
    assert (
        "nothing to restore, the last gateway used this version"
        in (await alone.kore("config", "revert")).out
    )
    async with alone:
        assert (await alone.answers_to(7, "back"))[-1] == "echo: back"


async def test_running_turn_keeps_its_configuration(alone: GatewayProcess) -> None:
    async with alone:
        await config_of(alone)
        alone.model.script(ReplyScript(text="slowly", waits_at=0))
        await alone.api.user_says(7, "hi")
        await alone.until(lambda: alone.model.waiting)
        config = json.loads(alone.config.read_text())
        config["agent"]["model"] = "other"
        config["model_list"] = config["model_list"][1:]
        alone.config.write_text(json.dumps(config))
        assert (await alone.kore("reload")).code == 0
        alone.model.let_go()
        await alone.idle()
        assert alone.api.answers(7) == ["slowly"]
        assert alone.model.requests[-1].body["model"] == "fake"


async def test_hangup_reloads_the_configuration(alone: GatewayProcess) -> None:
    async with alone:
        before = (await config_of(alone))["read_at"]
        alone.signal(signal.SIGHUP)

        async def is_read() -> bool:
            return bool((await config_of(alone))["read_at"] > before)

        await until(is_read, alone.log_text())
