"""Tools for pictures, archives and summaries in whole turns."""

import json
import zipfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import kore
from agent.errors import LimitReached, ToolError
from agent.providers.scripted import ScriptedProvider
from agent.providers.usage import Charge, InMemoryMeter
from agent.settings import ToolSettings
from agent.tools.base import CallContext, Tool
from agent.tools.creative.asset_export import AssetExport
from agent.tools.creative.image_generate import ImageGenerate, ImageSettings
from agent.tools.creative.summarize import Summarize
from tests.agent.props import call, call_context, calls
from tests.fakes.certificates import server_context
from tests.fakes.studio import PNG, Studio


@pytest.fixture
async def studio() -> AsyncIterator[Studio]:
    async with Studio() as running:
        yield running


def painter(studio: Studio, **more: Any) -> ImageGenerate:
    settings = ImageSettings(studio.base_url, "paint-1", "sk-paint", "512x512")
    return ImageGenerate(ToolSettings(), settings, **more)


async def outcome(
    folder: Path, tool: Tool, answer: str = "once", **args: Any
) -> tuple[kore.Result, list[kore.ApprovalRequest]]:
    """Run a turn in which the model calls the tool; return the result and the approval requests."""
    questions: list[kore.ApprovalRequest] = []

    def approve(request: kore.ApprovalRequest) -> str:
        questions.append(request)
        return answer

    model = ScriptedProvider([calls(call_with(tool.name, args)), "done"])
    agent = kore.Agent(model, workspace=folder, tools=[tool], approve=approve, mode="auto")
    return await agent.run("?"), questions


def call_with(tool: str, args: dict[str, Any]) -> kore.ToolCall:
    return kore.ToolCall("c1", tool, args, json.dumps(args))


def answer_to_call(result: kore.Result) -> str:
    return next(message.text for message in result.messages if message.role == "tool")


async def test_picture_is_a_new_file_and_needs_approval(tmp_path: Path, studio: Studio) -> None:
    result, questions = await outcome(tmp_path, painter(studio), prompt="A red fox, at dawn!")
    path = tmp_path / "pictures" / "a-red-fox-at-dawn.png"
    assert path.read_bytes() == PNG
    assert str(path) in answer_to_call(result)
    (question,) = questions
    assert question.sends == "A red fox, at dawn!"
    assert studio.requests[0] == {
        "model": "paint-1",
        "prompt": "A red fox, at dawn!",
        "n": 1,
        "size": "512x512",
    }
    assert studio.keys == ["Bearer sk-paint"]
    # The next picture with the same prompt gets another file.
    await outcome(tmp_path, painter(studio), prompt="A red fox, at dawn!")
    assert (tmp_path / "pictures" / "a-red-fox-at-dawn-2.png").exists()


async def test_denied_picture_sends_no_request(tmp_path: Path, studio: Studio) -> None:
    await outcome(tmp_path, painter(studio), "deny", prompt="A fox")
    assert studio.requests == []
    assert not (tmp_path / "pictures").exists()


async def test_picture_address_must_be_public(tmp_path: Path, studio: Studio) -> None:
    studio.by_address = True
    result, _ = await outcome(tmp_path, painter(studio), prompt="A fox")
    assert "pictures" not in answer_to_call(result)
    assert not (tmp_path / "pictures").exists()
    await outcome(tmp_path, painter(studio, allow=lambda address: True), prompt="A fox")
    assert (tmp_path / "pictures" / "a-fox.png").read_bytes() == PNG


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, {"error": {"message": "bad key"}}, "refused the key (images.api_key)"),
        (400, {"error": {"message": "no violence"}}, "no violence"),
        (200, {"created": 1, "data": []}, "returned no picture"),
        (200, {"created": 1, "data": [{"b64_json": "!!"}]}, "something unreadable"),
        (200, {"created": 1, "data": [{"b64_json": "aGVsbG8="}]}, "not a picture"),
    ],
)
async def test_failure_is_one_sentence_after_one_request(
    tmp_path: Path, studio: Studio, status: int, body: Any, words: str
) -> None:
    studio.answers = [(status, body)]
    result, _ = await outcome(tmp_path, painter(studio), prompt="A fox")
    assert words in answer_to_call(result)
    assert "sk-paint" not in answer_to_call(result)
    assert len(studio.requests) == 1


async def test_approval_can_be_disabled(tmp_path: Path, studio: Studio) -> None:
    tool = ImageGenerate(ToolSettings(), ImageSettings(studio.base_url, "paint-1", asks=False))
    _, questions = await outcome(tmp_path, tool, "deny", prompt="A fox")
    assert questions == []
    assert (tmp_path / "pictures" / "a-fox.png").exists()


@pytest.mark.parametrize("path", ["../out.png", "notes.txt", "there.png", ".git/x.png"])
async def test_other_file_types_are_rejected(tmp_path: Path, studio: Studio, path: str) -> None:
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "there.png").write_bytes(b"mine")
    await outcome(folder, painter(studio), prompt="A fox", path=path)
    assert studio.requests == []
    assert (folder / "there.png").read_bytes() == b"mine"


async def test_files_are_packed_if_they_may_be_read(tmp_path: Path) -> None:
    for name in ("site/index.html", "site/a/b.css", "site/.env", "site/out/x.o", "notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "site" / ".gitignore").write_text("out/\n")
    result, _ = await outcome(
        tmp_path, AssetExport(ToolSettings()), paths=["site", "notes.md"], name="My Site"
    )
    path = tmp_path / "exports" / "my-site.zip"
    assert str(path) in answer_to_call(result)
    with zipfile.ZipFile(path) as archive:
        assert set(archive.namelist()) - {"site/.gitignore"} == {
            "site/index.html",
            "site/a/b.css",
            "notes.md",
        }
        assert archive.read("site/a/b.css") == b"site/a/b.css"


@pytest.mark.parametrize(
    ("paths", "words"),
    [(["gone"], "does not exist"), ([], "Give 1 to"), (["/etc"], "outside"), (["bare"], "nothing")],
)
async def test_export_errors_are_reported(tmp_path: Path, paths: list[str], words: str) -> None:
    (tmp_path / "bare").mkdir()
    result, _ = await outcome(tmp_path, AssetExport(ToolSettings()), paths=paths)
    assert words in answer_to_call(result)


async def test_summary_is_written_by_another_agent(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("The meeting is on Tuesday.\n" * 500)
    model = ScriptedProvider(
        [
            calls(call("summarize", path="long.txt", focus="dates")),
            calls(call("read_file", "r", path="long.txt")),
            "It is on Tuesday.",
            "done",
        ]
    )
    agent = kore.Agent(model, workspace=tmp_path, tools=[Summarize(ToolSettings())])
    result = await agent.run("?")
    assert "It is on Tuesday." in answer_to_call(result)
    text = json.dumps([message.text for message in model.requests[1].messages])
    assert "What matters: dates." in text
    # The document is not part of the conversation that requested the summary.
    assert "on Tuesday.\\n1" not in json.dumps([m.text for m in model.requests[-1].messages])
    assert len(model.requests[-1].messages) == 3


def metered(folder: Path, meter: InMemoryMeter) -> CallContext:
    context = call_context("image_generate", folder)
    return replace(context, environment=replace(context.environment, meter=meter))


async def test_picture_is_counted_and_limited(tmp_path: Path, studio: Studio) -> None:
    settings = ImageSettings(studio.base_url, "paint-1", price_usd=0.04, asks=False)
    tool = ImageGenerate(ToolSettings(), settings)
    meter = InMemoryMeter()
    await tool.run({"prompt": "A fox"}, metered(tmp_path, meter))
    assert meter.spent.cost_nusd == 40_000_000

    class Closed(InMemoryMeter):
        async def before(self, estimate: Charge) -> tuple[str, ...]:
            raise LimitReached("no more today")

    with pytest.raises(ToolError, match="no more today"):
        await tool.run({"prompt": "A cat"}, metered(tmp_path, Closed()))
    assert len(studio.requests) == 1


async def test_certificates_of_the_environment_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = server_context(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    runner = web.AppRunner(Studio().app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        settings = ImageSettings(f"https://localhost:{runner.addresses[0][1]}/v1", "paint-1", "k")
        result, _ = await outcome(tmp_path, ImageGenerate(ToolSettings(), settings), prompt="fox")
    finally:
        await runner.cleanup()
    assert (tmp_path / "pictures" / "fox.png").read_bytes() == PNG, answer_to_call(result)


async def test_proxy_unsupported_by_the_client_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks4://127.0.0.1:9")
    settings = ImageSettings("http://images.example/v1", "paint-1", "k")
    result, _ = await outcome(tmp_path, ImageGenerate(ToolSettings(), settings), prompt="fox")
    assert "cannot be reached through socks4://127.0.0.1:9" in answer_to_call(result)
