"""Pictures in tool results: stored in files, sent to vision models, described to others."""

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import kore
from agent.agent import Agent
from agent.errors import ToolError
from agent.prompts import load_prompt
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.run.history import JsonlHistory
from agent.settings import ToolSettings
from agent.text.media_types import MAX_PICTURE_BYTES
from agent.tools.base import CallContext
from agent.tools.files.read_write import ReadFile
from agent.tools.output_spill import spill_folder
from agent.tools.pictures import MAX_PICTURES, keep_images
from agent.types import Image, ImageFile, ToolResult
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript

LOGO = b"\x89PNG\r\n\x1a\n" + b"logo"
PHOTO = b"\xff\xd8\xff" + b"photo"


def agent_of(
    server: ModelServer,
    workspace: Path,
    model: str,
    options: Mapping[str, Any] = MappingProxyType({}),
    tools: Sequence[kore.Tool] = (),
) -> Agent:
    base = server.base_url.removesuffix("/v1") if "anthropic" in model else server.base_url
    known = [ModelConfig("fake", model, api_base=base, api_key="k", **options)]
    history = JsonlHistory(workspace / "sessions")
    return Agent(ModelPool("fake", known), workspace=workspace, tools=tools, history=history)


def pictures_sent(server: ModelServer) -> list[list[bytes]]:
    """Return the known pictures that each request contains."""
    return [
        [data for data in (LOGO, PHOTO) if b64encode(data) in request.raw]
        for request in server.requests
    ]


READ_BOTH = ReplyScript(
    tool_calls=(Call("read_file", {"path": "logo.png"}), Call("read_file", {"path": "photo.jpg"}))
)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    (tmp_path / "logo.png").write_bytes(LOGO)
    (tmp_path / "photo.jpg").write_bytes(PHOTO)
    return tmp_path


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("openai/fake", {}),
        ("openai/fake", {"api": "responses"}),
        ("openai/fake", {"tools": "xml"}),
        ("anthropic/claude-fake", {}),
    ],
)
async def test_read_pictures_are_visible_in_later_turns(
    pictures: Path, model_server: ModelServer, model: str, options: Mapping[str, Any]
) -> None:
    model_server.script(READ_BOTH, "A logo and a photo.", "Yes.")
    agent = agent_of(model_server, pictures, model, options)
    await agent.run("look", session="s")
    # Later changes of the file do not affect the conversation.
    (pictures / "logo.png").write_bytes(b"something else")
    await agent.run("sure?", session="s")
    await agent.aclose()
    assert pictures_sent(model_server) == [[], [LOGO, PHOTO], [LOGO, PHOTO]]
    assert b64encode(LOGO) not in b"".join(
        path.read_bytes() for path in (pictures / "sessions").glob("*.jsonl")
    )


async def test_chat_completions_send_pictures_after_all_results_of_a_reply(
    pictures: Path, model_server: ModelServer
) -> None:
    model_server.script(READ_BOTH, "Both.", "Yes.")
    agent = agent_of(model_server, pictures, "openai/fake")
    await agent.run("look", session="s")
    await agent.run("sure?", session="s")
    await agent.aclose()
    _, second, third = model_server.requests
    roles = [message["role"] for message in second.body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user"]
    words, *images = second.body["messages"][-1]["content"]
    assert words == {"type": "text", "text": load_prompt("result_pictures")}
    assert [image["image_url"]["url"][:16] for image in images] == [
        "data:image/png;b",
        "data:image/jpeg;",
    ]
    assert third.raw.startswith(second.raw.removesuffix(b"]}"))


async def test_model_without_image_input_gets_a_note(
    pictures: Path, model_server: ModelServer
) -> None:
    model_server.script(READ_BOTH, "I cannot see them.")
    agent = agent_of(model_server, pictures, "openai/fake", {"images": False})
    await agent.run("look", session="s")
    await agent.aclose()
    results = [
        message
        for message in model_server.requests[1].body["messages"]
        if message["role"] == "tool"
    ]
    for result in results:
        assert load_prompt("unseen_picture") in result["content"]
    assert pictures_sent(model_server)[1] == []


async def test_function_returns_a_picture(tmp_path: Path, model_server: ModelServer) -> None:
    @kore.tool(effect="read")
    def screenshot() -> list[str | kore.Image]:
        """Take a screenshot."""
        return ["1568 x 980", kore.Image("image/png", LOGO)]

    model_server.script(ReplyScript(tool_calls=(Call("screenshot", {}),)), "A logo.")
    agent = agent_of(model_server, tmp_path, "openai/fake", tools=[screenshot])
    await agent.run("look", session="s")
    await agent.aclose()
    result = next(m for m in model_server.requests[1].body["messages"] if m["role"] == "tool")
    assert result["content"] == "1568 x 980"
    assert pictures_sent(model_server)[1] == [LOGO]


async def test_picture_alone_is_a_result(call: CallContext) -> None:
    @kore.tool(effect="read")
    def screenshot() -> kore.Image:
        """Take a screenshot."""
        return kore.Image("image/png", LOGO)

    result = await screenshot.run({}, call)
    assert result.images == (Image("image/png", LOGO),)
    assert result.for_model == load_prompt("result_pictures")


async def test_too_large_picture_is_rejected_with_a_hint(
    call: CallContext, workspace: Path
) -> None:
    (workspace / "big.png").write_bytes(LOGO + bytes(MAX_PICTURE_BYTES))
    with pytest.raises(ToolError, match=r"big\.png is a picture of 3,700,012 bytes; at most"):
        await ReadFile(ToolSettings()).run({"path": "big.png"}, call)


def test_pictures_are_stored_once_by_content(tmp_path: Path) -> None:
    result = ToolResult("two", images=(Image("image/png", LOGO), Image("text/html", LOGO)))
    images = keep_images(result, tmp_path)
    digest = hashlib.sha256(LOGO).hexdigest()
    (path,) = spill_folder(tmp_path).glob("*.png")
    assert images.images == (ImageFile(str(path), "image/png", digest),) * 2
    assert path.read_bytes() == LOGO
    assert images.for_model == "two"


def test_omitted_pictures_are_noted(tmp_path: Path) -> None:
    too_large, no_picture = (
        Image("image/png", LOGO + bytes(MAX_PICTURE_BYTES)),
        Image("image/png", b"%!"),
    )
    enough = (Image("image/png", LOGO),) * (MAX_PICTURES + 2)
    images = keep_images(ToolResult("all", images=(too_large, no_picture, *enough)), tmp_path)
    assert len(images.images) == MAX_PICTURES
    notes = images.for_model.splitlines()
    assert [note[:30] for note in notes] == [
        "all",
        "(Not shown: a picture of 3,700",
        "(Not shown: a picture that is ",
        "(Not shown: 2 more pictures; 8",
    ]


def test_unstorable_picture_stays_in_the_result(tmp_path: Path) -> None:
    (tmp_path / ".kore").write_text("in the way")
    picture = Image("image/png", LOGO)
    assert keep_images(ToolResult("", images=(picture,)), tmp_path).images == (picture,)


async def test_result_contains_the_pictures(tmp_path: Path) -> None:
    @kore.tool
    def chart() -> kore.Image:
        """Draw a chart."""
        return kore.Image("image/png", LOGO)

    async with ModelServer() as server:
        server.script(ReplyScript(tool_calls=(Call("chart", {}),)), "There it is.")
        prompt = ["Draw it like this:", kore.Image("image/jpeg", PHOTO)]
        result = await agent_of(server, tmp_path, "openai/gpt-5", tools=[chart]).run(prompt)
    (image,) = result.images
    assert isinstance(image, kore.ImageFile)
    assert (image.media_type, (tmp_path / image.path).read_bytes()) == ("image/png", LOGO)
