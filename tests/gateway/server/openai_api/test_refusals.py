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
async def test_invalid_field_names_the_found_value(
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
