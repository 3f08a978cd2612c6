"""Certificates trusted by clients of httpx."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from agent.events import Reply
from agent.mcp.http import bounded_client
from agent.providers.base import ModelRequest
from agent.providers.opening import open_provider
from agent.providers.registry import ModelConfig, resolve_model
from agent.types import user
from tests.fakes.certificates import server_context
from tests.fakes.model import ModelServer


@pytest.fixture
async def address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model_server: ModelServer
) -> AsyncIterator[str]:
    """Return the address of a model server with a test certificate."""
    context = server_context(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    runner = web.AppRunner(ModelServer().app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield f"https://localhost:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_openai_library_trusts_the_certificates_of_the_environment(address: str) -> None:
    entry = ModelConfig("m", "openai/fake", f"{address}/v1", "k", transport="sdk")
    provider = open_provider(resolve_model("m", [entry], {}))
    try:
        events = [event async for event in provider.stream(ModelRequest("fake", "", (user("hi"),)))]
    finally:
        await provider.aclose()
    assert isinstance(events[-1], Reply)
    assert events[-1].message.text == "echo: hi"


async def test_mcp_client_trusts_the_certificates_of_the_environment(address: str) -> None:
    async with bounded_client() as client:
        response = await client.get(f"{address}/nothing")
    assert response.status_code == 404
