"""OpenAI API in a process other than the owner of the data."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import openai
import pytest

from gateway.control.client import ControlClient
from gateway.control.server import ControlServer
from gateway.control.service import Service
from gateway.server.listener import ListenAddress, ServerOptions, serve
from gateway.server.replaceable_service import ReplaceableService
from gateway.server.tokens import TokenFile
from tests.fakes.gated import Gated
from tests.gateway.parts import running
from tests.gateway.server.openai_api.clients import says

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()


class OtherProcessClient:
    """Client whose `service` calls the current owner of the data over the control socket."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "kore.sock"
        self.service = ReplaceableService()

    async def connect(self) -> None:
        client = await ControlClient.connect(self.path)
        assert client is not None
        self.service.current = client


@asynccontextmanager
async def served_by_other_process(
    folder: Path, remote: OtherProcessClient
) -> AsyncIterator[openai.AsyncOpenAI]:
    tokens = TokenFile(folder / "tokens.json")
    secret = tokens.add("program", ("chat",))
    service = cast("Service", remote.service)
    async with (
        serve(service, tokens, ServerOptions(ListenAddress(port=0))) as access,
        openai.AsyncOpenAI(base_url=f"{access.web}/v1", api_key=secret, max_retries=0) as client,
    ):
        yield client


@pytest.mark.parametrize("model", ["kore", "default"])
async def test_text_and_pictures_over_the_control_socket(tmp_path: Path, model: str) -> None:
    remote = OtherProcessClient(tmp_path)
    content = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
    ]
    provider = Gated(is_open=lambda _: True)
    async with running(tmp_path, provider) as parts, ControlServer(parts.service, remote.path):
        await remote.connect()
        async with served_by_other_process(tmp_path, remote) as client:
            answer = await client.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": content}],  # type: ignore[list-item,misc]
            )
    assert (answer.choices[0].message.content or "").startswith("re: look")


async def test_answer_continues_after_the_owner_connection_is_lost(tmp_path: Path) -> None:
    remote, provider = OtherProcessClient(tmp_path), Gated()
    async with running(tmp_path, provider) as parts:
        async with ControlServer(parts.service, remote.path):
            await remote.connect()
            serving = served_by_other_process(tmp_path, remote)
            client = await serving.__aenter__()
            stream = await client.chat.completions.create(
                model="kore", messages=says("hi"), stream=True
            )
            words = ""
            while words != "re: ":
                words += (await anext(stream)).choices[0].delta.content or ""
        remote.service.current = None
        async with ControlServer(parts.service, remote.path):
            await remote.connect()
            provider.let_go()
            async for chunk in stream:
                words += chunk.choices[0].delta.content or ""
            await serving.__aexit__(None, None, None)
    assert words == "re: hi"
    assert provider.texts == ["hi"]
