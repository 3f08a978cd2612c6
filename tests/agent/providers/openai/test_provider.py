"""Connections, imports and large conversations of the OpenAI provider."""

import asyncio
import subprocess
import sys
from contextlib import aclosing

from aiohttp import web
from aiohttp.test_utils import TestServer

from agent.events import Reply
from agent.providers.base import ModelRequest
from agent.providers.http.transport import Endpoint
from agent.providers.openai.provider import OpenAICompatibleProvider
from agent.types import assistant, user
from tests.fakes.model import ModelServer

REQUEST = ModelRequest("fake", "", (user("hi"),))


async def test_connection_is_reused() -> None:
    peers: list[object] = []

    async def complete(request: web.Request) -> web.StreamResponse:
        peers.append(request.transport and request.transport.get_extra_info("peername"))
        response = web.StreamResponse()
        await response.prepare(request)
        choice = '{"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}'
        await response.write(f"data: {choice}\n\ndata: [DONE]\n\n".encode())
        # Send the end of the response in a separate packet, as from a distant server.
        await asyncio.sleep(0.02)
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", complete)
    async with TestServer(app, host="127.0.0.1") as server:
        provider = OpenAICompatibleProvider(Endpoint("openai", str(server.make_url("/v1")), "k"))
        for _ in range(3):
            async with aclosing(provider.stream(REQUEST)) as stream:  # type: ignore[type-var]
                async for event in stream:
                    if isinstance(event, Reply):
                        break
        await provider.aclose()
    assert len(peers) == 3
    assert len(set(peers)) == 1


async def test_body_of_several_megabytes_is_sent_completely(model_server: ModelServer) -> None:
    provider = OpenAICompatibleProvider(Endpoint("openai", model_server.base_url, "k"))
    messages = [user("x" * 3_000_000), assistant("ok"), user("last")]
    events = [event async for event in provider.stream(ModelRequest("fake", "", messages))]
    await provider.aclose()
    reply = events[-1]
    assert isinstance(reply, Reply)
    assert reply.message.text == "echo: last"
    assert len(model_server.requests[0].raw) > 3_000_000


async def test_closed_provider_can_be_used_again(model_server: ModelServer) -> None:
    provider = OpenAICompatibleProvider(Endpoint("openai", model_server.base_url, "k"))
    for _ in range(2):
        events = [e async for e in provider.stream(REQUEST)]
        assert isinstance(events[-1], Reply)
        await provider.aclose()


def test_importing_and_routing_load_no_http_library() -> None:
    code = (
        "import sys, agent.providers.openai.provider, agent.providers.scripted\n"
        "import agent.providers.http.openai_sdk_transport\n"
        "from agent.providers.opening import open_provider\n"
        "from agent.providers.registry import resolve_model\n"
        "open_provider(resolve_model('openai/x', [], {'OPENAI_API_KEY': 'k'}))\n"
        "print([m for m in ('aiohttp', 'openai', 'httpx2', 'pydantic') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
