"""Hostile schemas from API clients, for tools and for answers."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.tools.hostile_schemas import HOSTILE_SCHEMAS
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.server.openai_api.clients import says, served_with_model
from tests.gateway.server.served import Served

CHAT = "/v1/chat/completions"
WRITTEN = {"a": "a" * 3_000, "p1": {"p1": 1}}


@pytest.fixture
async def both(tmp_path: Path) -> AsyncIterator[tuple[Served, ModelServer]]:
    async with served_with_model(tmp_path) as both:
        yield both


async def ask(server: Served, fields: str) -> tuple[int, dict[str, Any]]:
    """Send a request with additional fields, written as JSON."""
    body = json.dumps({"model": "stand-in", "messages": says("go")})
    headers = {"Content-Type": "application/json"}
    async with (
        server.session("chat") as session,
        session.post(CHAT, data=f"{body[:-1]}, {fields}}}", headers=headers) as response,
    ):
        return response.status, await response.json()


async def test_tools_with_hostile_schemas_are_called(
    both: tuple[Served, ModelServer],
) -> None:
    server, model = both
    for schema in HOSTILE_SCHEMAS.values():
        function = {"name": "act", "parameters": {**schema, "type": "object"}}
        tools = json.dumps([{"type": "function", "function": function}])
        model.script(ReplyScript(tool_calls=(Call("act", WRITTEN),)))
        status, answer = await ask(server, f'"tools": {tools}')
        if status == 200:
            (tool_call,) = answer["choices"][0]["message"]["tool_calls"]
            assert json.loads(tool_call["function"]["arguments"]) == WRITTEN
        else:
            # Values outside of JSON are invalid in a request.
            assert status == 400


async def test_response_format_is_passed_to_the_model(both: tuple[Served, ModelServer]) -> None:
    server, model = both
    model.script(ReplyScript("fine"))
    schema = {"type": "object", "properties": {"a": {"pattern": "^(a|a)*b$", "$ref": "#"}}}
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    status, _ = await ask(server, f'"response_format": {json.dumps(shape)}')
    assert status == 200
    assert model.requests[-1].body["response_format"] == shape


@pytest.mark.parametrize("depth", [300, 900, 50_000])
async def test_deeply_nested_response_format_does_not_crash_the_server(
    both: tuple[Served, ModelServer], depth: int
) -> None:
    server, model = both
    model.script(ReplyScript("fine"), ReplyScript("fine"))
    nested = '{"a":' * depth + "1" + "}" * depth
    status, _ = await ask(server, f'"response_format": {nested}')
    assert status in (200, 400)
    assert (await ask(server, '"n": 1'))[0] == 200
