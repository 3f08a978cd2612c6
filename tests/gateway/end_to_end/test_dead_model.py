"""A gateway whose model is unreachable, as its operator sees it."""

import json
from pathlib import Path

import aiohttp

from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.fakes.model_script import refusal
from tests.gateway.end_to_end.gateway_process import KEY, OWNER, GatewayProcess

CHAT = 7


def _log(gateway: GatewayProcess) -> list[dict[str, str]]:
    text = (gateway.home / "logs" / "kore.log").read_text()
    return [json.loads(line) for line in text.splitlines()]


async def test_dead_model_is_one_warning_per_turn_and_reported_everywhere(tmp_path: Path) -> None:
    api, model = BotApi(), ModelServer(api_key=KEY)
    async with api, model, GatewayProcess(tmp_path, api, model) as gateway:
        await gateway.answers_to(OWNER, "hi")
        for text in ("one", "two", "three", "four"):
            model.script(refusal(404, "the model is lost", code="model_not_found"))
            await gateway.answers_to(CHAT, text)
        about_turns = [line for line in _log(gateway) if line["logger"].endswith("turn_log")]
        warnings = [line["text"] for line in about_turns if line["level"] == "warning"]
        assert len(warnings) == 4
        assert all(line.endswith("(rejected)") for line in warnings)
        assert [line["level"] for line in about_turns] == ["info", *["warning"] * 4]
        assert not any(text in line for line in warnings for text in ("one", "two", "three"))
        (notice,) = [text for text in api.answers(OWNER) if "keeps failing" in text]
        assert "(in a row: 3)" in notice
        shown = await gateway.kore("status")
        assert "failing model" in shown.out
        assert "(rejected)" in shown.out
        checked = await gateway.kore("doctor", "--json")
        (check,) = [item for item in json.loads(checked.out)["checks"] if item["name"] == "turns"]
        assert check["state"] == "warn"
        (at,) = [line["text"] for line in _log(gateway) if "health and metrics at" in line["text"]]
        url = at.rpartition(" ")[2]
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{url}/healthz?deep") as response:
                assert (response.status, (await response.json())["broken"]) == (503, ["model"])
            async with session.get(f"{url}/metrics") as response:
                assert 'kore_turns_failed_total{code="rejected"} 4' in await response.text()
