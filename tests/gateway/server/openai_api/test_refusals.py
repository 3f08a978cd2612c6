"""Error responses of the API in OpenAI's format, with the expected and the actual value."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest

from tests.gateway.server.openai_api.clients import client_of
from tests.gateway.server.served import Served, served

CHAT = "/v1/chat/completions"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as server:
        yield server


async def rejection(
    session: aiohttp.ClientSession, method: str, path: str, **request: Any
) -> tuple[int, dict[str, Any]]:
    async with session.request(method, path, **request) as response:
        error = (await response.json())["error"]
        return response.status, error


@pytest.mark.parametrize(
    ("token", "words"),
    [(None, "Authorization: Bearer"), ("kore_wrong", "wrong, was revoked, or has expired")],
)
async def test_missing_and_wrong_token(server: Served, token: str | None, words: str) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with aiohttp.ClientSession(server.address, headers=headers) as session:
        status, error = await rejection(session, "GET", "/v1/models")
        assert (status, error["type"], error["param"]) == (401, "invalid_request_error", None)
        assert words in error["message"]
        assert "kore token add" in error["message"]
        # Kore's own calls use their own error format.
        status, error = await rejection(session, "POST", "/v1/calls/status", json={})
        assert status == 401
        assert set(error) == {"code", "message", "hint"}


async def test_unsupported_endpoint_is_named(server: Served) -> None:
    async with client_of(server, "chat") as client:
        with pytest.raises(openai.NotFoundError, match="POST /v1/embeddings") as caught:
            await client.embeddings.create(model="kore", input="hello")
        assert caught.value.code == "not_found"
        with pytest.raises(openai.NotFoundError, match="GET /v1/models lists them"):
            await client.models.retrieve("gpt-9")
    async with server.session("chat") as session:
        status, error = await rejection(session, "GET", CHAT)
        assert status == 405
        assert f"POST {CHAT}" in error["message"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"messages": []}, "model: found no value, expected the name of a model"),
        ({"model": "kore", "messages": "hi"}, "messages: found a string of 2 characters"),
        ({"model": "kore", "messages": [{"role": 7, "content": "hi"}]}, "found a number, expected"),
    ],
)
async def test_error_for_an_invalid_field_names_the_value(
    server: Served, body: dict[str, Any], words: str
) -> None:
    async with server.session("chat") as session:
        status, error = await rejection(session, "POST", CHAT, json=body)
    assert status == 400
    assert words in error["message"]


async def test_form_data_is_rejected(server: Served) -> None:
    """Without a Content-Type header, curl sends a form."""
    async with server.session("chat") as session:
        status, error = await rejection(session, "POST", CHAT, data={"model": "kore"})
    assert status == 415
    assert "found application/x-www-form-urlencoded, expected application/json" in error["message"]


@pytest.mark.counterpart("openai")
@pytest.mark.parametrize("model", ["kore", "default"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 2),
        ("logprobs", True),
        ("top_logprobs", 3),
        ("functions", [{"name": "weather", "parameters": {}}]),
        ("modalities", ["text", "audio"]),
    ],
)
async def test_unsupported_field_of_a_completion_is_named(
    server: Served, model: str, field: str, value: Any
) -> None:
    async with client_of(server) as client:
        with pytest.raises(openai.BadRequestError, match=f"{field} is not supported") as caught:
            await client.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": "hi"}],
                extra_body={field: value},
            )
    assert caught.value.param == field


@pytest.mark.parametrize("model", ["kore", "default"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("conversation", "conv_1"),
        ("include", ["message.output_text.logprobs"]),
        ("prompt", {"id": "pmpt_1"}),
    ],
)
async def test_unsupported_field_of_a_response_is_named(
    server: Served, model: str, field: str, value: Any
) -> None:
    async with client_of(server) as client:
        with pytest.raises(openai.BadRequestError, match="is not supported") as caught:
            await client.responses.create(model=model, input="hi", extra_body={field: value})
    assert caught.value.param == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("response_format", {"type": "json_object"}),
        ("logit_bias", {"7": 1}),
        ("verbosity", "low"),
    ],
)
async def test_settings_that_the_agent_would_ignore_are_refused(
    server: Served, field: str, value: Any
) -> None:
    async with client_of(server) as client:
        with pytest.raises(openai.BadRequestError, match=f"does not support {field}") as caught:
            await client.chat.completions.create(
                model="kore",
                messages=[{"role": "user", "content": "hi"}],
                extra_body={field: value},
            )
        assert caught.value.param == field
        with pytest.raises(openai.BadRequestError, match="does not support response_format"):
            await client.responses.create(
                model="kore", input="hi", text={"format": {"type": "json_object"}}
            )


async def test_defaults_of_the_api_are_accepted_for_the_agent(server: Served) -> None:
    sampling = {"temperature": 1, "top_p": 1, "top_logprobs": 0, "parallel_tool_calls": True}
    common = sampling | {"service_tier": "auto", "store": True, "metadata": {}, "tools": []}
    chat = {
        "n": 1,
        "logprobs": False,
        "verbosity": "medium",
        "response_format": {"type": "text"},
        "modalities": ["text"],
        "logit_bias": {},
        "functions": [],
        "function_call": "none",
        "tool_choice": "none",
        "stop": None,
        "frequency_penalty": 0,
        "presence_penalty": 0,
        "reasoning_effort": "medium",
    }
    response = {
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "background": False,
        "truncation": "disabled",
        "include": [],
        "tool_choice": "auto",
        "conversation": None,
        "prompt": None,
        "max_tool_calls": None,
        "reasoning": {"effort": "medium", "summary": None},
    }
    async with client_of(server) as client:
        answer = await client.chat.completions.create(
            model="kore", messages=[{"role": "user", "content": "hi"}], extra_body=common | chat
        )
        assert answer.choices[0].message.content
        created = await client.responses.create(
            model="kore", input="hi", extra_body=common | response
        )
        assert created.output_text
        with pytest.raises(openai.BadRequestError, match="does not support verbosity"):
            await client.responses.create(model="kore", input="hi", text={"verbosity": "low"})


async def test_values_that_change_nothing_are_accepted(server: Served) -> None:
    async with client_of(server) as client:
        answer = await client.chat.completions.create(
            model="kore",
            messages=[{"role": "user", "content": "hi"}],
            n=1,
            logprobs=False,
            response_format={"type": "text"},
            modalities=["text"],
        )
    assert answer.choices[0].message.content
