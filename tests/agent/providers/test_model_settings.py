"""Generation settings in the format of each vendor."""

import json
from pathlib import Path
from typing import Any

import pytest

import kore
from agent.errors import ConfigError
from agent.events import ModelEvent, Notice, Reply
from agent.providers.anthropic.request import OLD_VERSION, VERSION, AnthropicRequestEncoder
from agent.providers.base import ModelRequest, ToolSpec
from agent.providers.model_settings import ModelSettings, UnsupportedSettings
from agent.providers.ollama import OllamaRequestEncoder
from agent.providers.openai.request import OpenAIRequestEncoder
from agent.providers.openai.responses.request import ResponsesRequestEncoder
from agent.providers.scripted import ScriptedProvider, reply_events
from agent.providers.vendors import VENDORS
from agent.types import assistant, user
from tests.agent.props import call, calls

ALL = ModelSettings(
    temperature=0.5,
    max_tokens=900,
    top_p=0.9,
    seed=7,
    stop_sequences=("END",),
    frequency_penalty=0.1,
    presence_penalty=0.2,
    parallel_tool_calls=False,
    reasoning_effort="low",
    verbosity="low",
    tool_choice="look",
    extra_body={"metadata": {"user": "ada"}},
)
LOOK = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})


def request(settings: ModelSettings, model: str = "m", **changes: Any) -> ModelRequest:
    return ModelRequest(
        model,
        "",
        [user("hello")],
        (LOOK,),
        settings.temperature,
        settings.max_tokens,
        {**settings.options(), **changes},
    )


def chat(settings: ModelSettings, vendor: str = "openai") -> Any:
    return json.loads(OpenAIRequestEncoder(VENDORS[vendor].dialect).body(request(settings)))


def test_chat_completions_send_every_setting() -> None:
    body = chat(ALL)
    named = {"type": "function", "function": {"name": "look"}}
    expected: dict[str, Any] = {
        "temperature": 0.5,
        "max_completion_tokens": 900,
        "top_p": 0.9,
        "seed": 7,
    }
    expected |= {"stop": ["END"], "frequency_penalty": 0.1, "presence_penalty": 0.2}
    expected |= {"parallel_tool_calls": False, "reasoning_effort": "low", "tool_choice": named}
    expected |= {"metadata": {"user": "ada"}}
    assert {name: body.get(name) for name in expected} == expected
    assert not {"stop_sequences", "extra_body"} & body.keys()


@pytest.mark.parametrize(
    ("vendor", "effort", "field"),
    [
        ("openrouter", "low", {"reasoning": {"effort": "low"}}),
        ("openrouter", "none", {"reasoning": {"enabled": False}}),
        ("qwen", "low", {"enable_thinking": True}),
        ("qwen", "none", {"enable_thinking": False}),
        ("lmstudio", "medium", {"reasoning_effort": "medium"}),
        ("openai", "none", {"reasoning_effort": "none"}),
    ],
)
def test_effort_uses_the_field_of_the_vendor(vendor: str, effort: Any, field: Any) -> None:
    body = chat(ModelSettings(reasoning_effort=effort), vendor)
    assert {name: body.get(name) for name in field} == field


SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}


@pytest.mark.parametrize(
    ("encoder", "path", "expected"),
    [
        (OpenAIRequestEncoder(VENDORS["openai"].dialect), ("response_format",), FORMAT),
        (
            ResponsesRequestEncoder(),
            ("text", "format"),
            {"type": "json_schema", "name": "place", "schema": SCHEMA},
        ),
        (
            AnthropicRequestEncoder(OLD_VERSION),
            ("output_config", "format"),
            {"type": "json_schema", "schema": SCHEMA},
        ),
        (OllamaRequestEncoder(8192), ("format",), SCHEMA),
    ],
    ids=["chat", "responses", "anthropic", "ollama"],
)
def test_response_format_uses_the_field_of_the_api(
    encoder: Any, path: tuple[str, ...], expected: Any
) -> None:
    value = json.loads(encoder.body(request(ModelSettings(response_format=FORMAT))))
    for name in path:
        value = value[name]
    assert value == expected


def test_json_object_is_a_format_of_ollama() -> None:
    settings = ModelSettings(response_format={"type": "json_object"})
    assert json.loads(OllamaRequestEncoder(8192).body(request(settings)))["format"] == "json"


def test_responses_api_sends_supported_settings() -> None:
    body = json.loads(ResponsesRequestEncoder().body(request(ALL)))
    assert body["reasoning"] == {"effort": "low", "summary": "auto"}
    assert body["text"] == {"verbosity": "low"}
    assert body["tool_choice"] == {"type": "function", "name": "look"}
    assert (body["top_p"], body["parallel_tool_calls"]) == (0.9, False)
    assert body["metadata"] == {"user": "ada"}
    assert not {"seed", "stop", "stop_sequences", "frequency_penalty", "extra_body"} & body.keys()


def anthropic(settings: ModelSettings, model: str, version: str = OLD_VERSION) -> Any:
    return json.loads(AnthropicRequestEncoder(version).body(request(settings, model)))


def test_anthropic_sends_supported_settings() -> None:
    body = anthropic(ALL, "claude-sonnet-5")
    choice = {"type": "tool", "name": "look", "disable_parallel_tool_use": True}
    assert body["tool_choice"] == choice
    # A forced call and thinking exclude each other.
    assert body["thinking"] == {"type": "disabled"}
    assert body["output_config"] == {"effort": "low"}
    assert (body["top_p"], body["stop_sequences"]) == (0.9, ["END"])
    assert not {"seed", "frequency_penalty", "reasoning_effort", "extra_body"} & body.keys()
    assert "top_p" not in anthropic(ALL, "claude-sonnet-5", VERSION)


def test_older_claude_gets_a_budget_for_an_effort() -> None:
    body = anthropic(ModelSettings(reasoning_effort="low"), "claude-haiku-4-5")
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    assert "output_config" not in body
    for choice, kind in (("required", "any"), ("none", "none"), ("auto", "auto")):
        result = anthropic(ModelSettings(tool_choice=choice), "claude-haiku-4-5")
        assert result["tool_choice"] == {"type": kind}


def test_ollama_gets_options_but_no_tool_choice() -> None:
    body = json.loads(OllamaRequestEncoder(None).body(request(ALL)))
    assert body["think"] is True
    assert (body["options"]["seed"], body["options"]["stop"]) == (7, ["END"])
    assert "tool_choice" not in {**body, **body["options"]}
    silent = ModelSettings(tool_choice="none")
    assert "tools" not in json.loads(OllamaRequestEncoder(None).body(request(silent)))


async def test_unsupported_settings_are_reported_once() -> None:
    unsupported = UnsupportedSettings(frozenset({"seed", "top_p"}))

    async def collect(settings: ModelSettings) -> list[ModelEvent]:
        async def stream() -> Any:
            for event in reply_events(model_request, assistant("hi")):
                yield event

        model_request = request(settings)
        return [event async for event in unsupported.announced(model_request, stream())]

    first = await collect(ModelSettings(seed=1))
    assert [item.text for item in first if isinstance(item, Notice)] == [
        "m: left out seed, which its API does not support"
    ]
    assert isinstance(first[-1], Reply)
    assert not [item for item in await collect(ModelSettings(seed=2)) if isinstance(item, Notice)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 3),
        ("temperature", True),
        ("top_p", -0.1),
        ("seed", 1.5),
        ("max_tokens", 0),
        ("stop_sequences", "END"),
        ("parallel_tool_calls", "yes"),
        ("reasoning_effort", "lots"),
        ("tool_choice", ""),
        ("extra_body", {"stream": False}),
        ("extra_body", {"x": object()}),
    ],
)
def test_invalid_setting_is_rejected_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigError, match=name):
        ModelSettings(**{name: value})


async def test_settings_of_a_turn_override_those_of_the_agent(tmp_path: Path) -> None:
    model = ScriptedProvider(["one", "two"])
    settings = kore.ModelSettings(temperature=0.1, seed=1, extra_body={"a": 1, "b": 1})
    agent = kore.Agent(model, workspace=tmp_path, model_settings=settings)
    await agent.run("hello")
    turn = kore.ModelSettings(temperature=0.9, max_tokens=50, extra_body={"b": 2})
    await agent.run("hello", model_settings=turn)
    first, second = model.requests
    assert (first.temperature, first.max_tokens, first.options["seed"]) == (0.1, None, 1)
    assert (second.temperature, second.max_tokens, second.options["seed"]) == (0.9, 50, 1)
    assert second.options["extra_body"] == {"a": 1, "b": 2}


@kore.tool
def look() -> str:
    """Look around."""
    return "a room"


@pytest.mark.parametrize("choice", ["required", "look"])
async def test_tool_choice_is_forced_once(tmp_path: Path, choice: str) -> None:
    model = ScriptedProvider([calls(call("look")), "a room", calls(call("look")), "again"])
    agent = kore.Agent(model, workspace=tmp_path, tools=[look])
    await agent.run("where?", session="s", tool_choice=choice)
    await agent.run("and now?", session="s", tool_choice=choice)
    results = [item.options.get("tool_choice") for item in model.requests]
    assert results == [choice, None, choice, None]


async def test_unknown_tool_cannot_be_chosen(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no tool 'fly'"):
        await kore.run("up", model=ScriptedProvider(["no"]), workspace=tmp_path, tool_choice="fly")


async def test_typed_answer_is_requested_again_without_force(tmp_path: Path) -> None:
    model = ScriptedProvider([calls(call("look")), "a room", "3"])
    agent = kore.Agent(model, workspace=tmp_path, tools=[look])
    result = await agent.run("how many?", output_type=int, tool_choice="required")
    assert result.output == 3
    assert [item.options.get("tool_choice") for item in model.requests] == [
        "required",
        None,
        "auto",
    ]
