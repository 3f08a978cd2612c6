"""`kore models`, run as people run it, against a fake server."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript, refusal
from tests.gateway.cli.kore import kore


def obliging(body: Mapping[str, Any]) -> ReplyScript:
    """Call the tool with the word from the prompt, then report success."""
    if body["messages"][-1]["role"] == "tool":
        return ReplyScript(text="worked")
    return ReplyScript(tool_calls=(Call("ping", {"word": "Zürich"}),))


def configure(home: Path, server: ModelServer, **more: Any) -> None:
    home.mkdir()
    entry = {"api_base": server.base_url, "api_keys": ["sk-first-8Gq2mZx7VtLw4R", "second-key"]}
    config = {
        "agent": {"model": "big", "fallback": ["offline/echo"]},
        "model_list": [
            {"model_name": "big", "model": "openai/gpt-5", **entry},
            {"model_name": "lost", "model": "openai/x", "api_key": "${NOT_SET}"},
        ],
        "profiles": {"quick": "lost"},
        **more,
    }
    (home / "config.json").write_text(json.dumps(config))


async def test_list_shows_use_window_price_and_problems(
    tmp_path: Path, model_server: ModelServer
) -> None:
    home = tmp_path / "h"
    configure(home, model_server)
    environ = {"MISTRAL_API_KEY": "m"}
    result = await asyncio.to_thread(kore, "models", "list", "--json", home=home, environ=environ)
    models = {load["name"]: load for load in json.loads(result.stdout)}
    assert models["big"]["marks"] == ["default"]
    assert (models["big"]["keys"], models["big"]["context_tokens"]) == (2, 272_000)
    assert models["big"]["price_input_usd"] > 0
    assert (models["big"]["images"], models["lost"]["images"]) == (True, None)
    assert models["lost"]["marks"] == ["quick"]
    assert "NOT_SET" in models["lost"]["problem"]
    assert models["offline/echo"]["marks"] == ["fallback 1"]
    assert models["mistral/mistral-small-latest"]["source"] == "environment"
    table = await asyncio.to_thread(kore, "models", "list", home=home)
    assert table.returncode == 0
    row = next(line for line in table.stdout.splitlines() if line.startswith("big "))
    assert "272,000" in row
    assert "images, reasoning" in row
    assert "sk-first-8Gq2mZx7VtLw4R" not in result.stdout + table.stdout + table.stderr


async def test_test_tries_each_key_and_explains_failures(
    tmp_path: Path, model_server: ModelServer
) -> None:
    home = tmp_path / "h"
    configure(home, model_server)
    model_server.script(refusal(401, "sk-first-8Gq2mZx7VtLw4R is wrong"))
    model_server.mind = obliging
    result = await asyncio.to_thread(kore, "models", "test", "big", home=home)
    first, hint, second = result.stdout.splitlines()
    assert result.returncode == 1
    assert first.startswith("fails big = openai/gpt-5 (key 1 of 2): ")
    assert first.endswith("[key-refused]")
    assert "sk-first-8Gq2mZx7VtLw4R" not in result.stdout
    assert hint.strip()
    assert second.startswith("ok    big = openai/gpt-5 (key 2 of 2): first token ")


async def test_test_without_a_name_covers_all_models_in_use(
    tmp_path: Path, model_server: ModelServer
) -> None:
    home = tmp_path / "h"
    configure(home, model_server)
    model_server.mind = obliging
    result = await asyncio.to_thread(kore, "models", "test", "--json", home=home)
    models = [(load["name"], load["ok"], load["code"]) for load in json.loads(result.stdout)]
    assert models == [
        ("big", True, None),
        ("big", True, None),
        ("lost", False, "config"),
        ("offline/echo", True, None),
    ]


async def test_model_that_calls_no_tool_or_mangles_its_argument_fails(
    tmp_path: Path, model_server: ModelServer
) -> None:
    home = tmp_path / "h"
    configure(home, model_server)
    model_server.script("I cannot", ReplyScript(tool_calls=(Call("ping", {"word": "Z"}),)), "ok")
    result = await asyncio.to_thread(kore, "models", "test", "big", "--json", home=home)
    assert [load["code"] for load in json.loads(result.stdout)] == ["no-tool-call", "bad-tool-call"]


def test_profile_is_tested_by_name_and_an_unknown_profile_is_reported(tmp_path: Path) -> None:
    home = tmp_path / "h"
    result = kore("models", "test", "quick", home=home)
    assert result.returncode == 0
    assert result.stdout.startswith("ok    offline/echo: ")
    result = kore("models", "test", "fast", home=home)
    assert result.returncode == 2
    assert result.stderr.startswith("kore: unknown model 'fast'")
