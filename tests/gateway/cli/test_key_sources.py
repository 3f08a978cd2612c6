"""The hint about a rejected key names the place that the key came from."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.model import ModelServer
from tests.gateway.cli.kore import kore

_VARIABLE = {"OPENAI_API_KEY": "sk-wrong-0"}


@pytest.mark.parametrize(
    ("entry", "secrets", "environ", "place"),
    [
        ({"api_key": "sk-wrong-1"}, {}, _VARIABLE, "model_list[0].api_key in {home}/config.json"),
        ({}, {}, _VARIABLE, "environment variable OPENAI_API_KEY"),
        (
            {"api_key": "${WORK_KEY}"},
            {},
            {**_VARIABLE, "WORK_KEY": "sk-wrong-2"},
            "environment variable WORK_KEY",
        ),
        (
            {"api_key": "${WORK_KEY}"},
            {"WORK_KEY": "sk-wrong-3"},
            _VARIABLE,
            "WORK_KEY in {home}/secrets.json",
        ),
        (
            {"api_keys": ["${WORK_KEY}"]},
            {"WORK_KEY": "sk-wrong-3"},
            _VARIABLE,
            "WORK_KEY in {home}/secrets.json",
        ),
        (
            {"api_keys": ["sk-wrong-4", " ", "sk-wrong-5"]},
            {},
            {},
            "model_list[0].api_keys[2] in {home}/config.json",
        ),
    ],
)
async def test_hint_names_the_source_of_the_key(
    tmp_path: Path,
    entry: Mapping[str, Any],
    secrets: Mapping[str, str],
    environ: Mapping[str, str],
    place: str,
) -> None:
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    async with ModelServer(api_key="sk-right") as server:
        model = {"model_name": "default", "model": "openai/x", "api_base": server.base_url, **entry}
        (home / "config.json").write_text(json.dumps({"model_list": [model]}))
        (home / "secrets.json").write_text(json.dumps(secrets))
        (home / "secrets.json").chmod(0o600)
        result = await asyncio.to_thread(
            kore, "models", "test", "default", home=home, environ=environ
        )
    assert result.returncode == 1
    output = " ".join((result.stdout + result.stderr).split())
    assert f"Check {place.format(home=home)}." in output, output
    assert "sk-wrong" not in output


async def test_list_in_an_environment_variable_is_named(tmp_path: Path) -> None:
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    async with ModelServer(api_key="sk-right") as server:
        model = {"model_name": "default", "model": "openai/x", "api_base": server.base_url}
        environ = {"KORE_MODEL_LIST": json.dumps([{**model, "api_key": "sk-wrong-5"}])}
        result = await asyncio.to_thread(kore, "agent", "-m", "hello", home=home, environ=environ)
    assert result.returncode != 0
    place = "model_list[0].api_key in environment variable KORE_MODEL_LIST"
    assert f"Check {place}." in " ".join(result.stderr.split()), result.stderr
