"""OpenAI clients of a served Kore, and models behind it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai

from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from gateway.control.declaration import CallScope
from tests.fakes.model import ModelServer
from tests.gateway.server.served import Served, served


@asynccontextmanager
async def client_of(server: Served, scope: CallScope = "chat") -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{server.address}/v1",
        api_key=server.secrets[scope],
        max_retries=0,
        # Loading the certificates takes longer than a test's requests, which are plain HTTP.
        http_client=openai.DefaultAsyncHttpxClient(verify=False),
    ) as client:
        yield client


@asynccontextmanager
async def served_with_model(folder: Path) -> AsyncIterator[tuple[Served, ModelServer]]:
    """Serve Kore in front of a fake model server, under the name `stand-in`."""
    async with ModelServer() as model:
        config = ModelConfig("stand-in", "openai/fake", api_base=model.base_url, api_key="sk-x")
        pool = ModelPool("stand-in", (config,))
        async with served(folder, pool) as server:
            yield server, model


def says(text: str) -> Any:
    return [{"role": "user", "content": text}]


async def streamed_chunks(server: Served, model: str, text: str) -> list[Any]:
    """Return the chunks of an answer, including its usage."""
    async with client_of(server) as client:
        stream = await client.chat.completions.create(
            model=model,
            messages=says(text),
            stream=True,
            stream_options={"include_usage": True},
        )
        return [chunk async for chunk in stream]
