"""Pictures that a program shows to a model."""

from pathlib import Path
from typing import Any

import pytest

import kore
from agent.errors import KoreError
from agent.providers.scripted import ScriptedProvider
from agent.run.content import message_of
from agent.security.network.urls import Address
from agent.text.media_types import MAX_PICTURE_BYTES
from agent.types import Image, Text
from tests.fakes.web import Page, WebSite

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
GIF = b"GIF89a" + bytes(20)


def loopback(address: Address) -> bool:
    return str(address) == "127.0.0.1"


async def test_prompt_keeps_text_and_pictures_in_order(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    model = ScriptedProvider(["A dot.", "1"])
    agent = kore.Agent(model, workspace=tmp_path)
    prompt = ["Compare", tmp_path / "a.png", GIF, kore.Image("image/png", b"x"), "now."]
    await agent.run(prompt, session="s")
    assert model.requests[0].messages[0].content[:-1] == (
        Text("Compare"),
        Image("image/png", PNG),
        Image("image/gif", GIF),
        Image("image/png", b"x"),
        Text("now."),
    )
    result = await agent.run(["How many?", GIF], output_type=int)
    assert result.output == 1
    assert Image("image/gif", GIF) in model.requests[1].messages[0].content


async def test_picture_is_fetched_from_its_address() -> None:
    async with WebSite() as site:
        site.put("/a", Page(PNG, "image/png"))
        site.put("/words", Page(b"hello there, words", "text/plain"))
        message = await message_of(["Look:", kore.ImageUrl(f"{site.url}/a")], loopback)
        assert message.content == (Text("Look:"), Image("image/png", PNG))
        for name, reason in (("words", "not a PNG"), ("none", "404")):
            with pytest.raises(KoreError, match=reason):
                await message_of([kore.ImageUrl(f"{site.url}/{name}")], loopback)


async def test_picture_at_a_private_address_is_not_fetched(tmp_path: Path) -> None:
    async with WebSite() as site:
        site.put("/a", Page(PNG, "image/png"))
        model = ScriptedProvider([])
        with pytest.raises(KoreError, match="not a public address"):
            await kore.run([kore.ImageUrl(f"{site.url}/a")], model=model, workspace=tmp_path)
        assert (site.visits, model.requests) == ([], [])


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (b"hello there", "the bytes is not a PNG"),
        (b"\x89PNG\r\n\x1a\n" + bytes(MAX_PICTURE_BYTES), "too large"),
        (Path("/nowhere/a.png"), "/nowhere/a.png cannot be read: No such file"),
        (7, "found int"),
    ],
)
async def test_invalid_picture_is_an_error(part: Any, reason: str) -> None:
    with pytest.raises(KoreError, match=reason):
        await message_of(["Look:", part])
