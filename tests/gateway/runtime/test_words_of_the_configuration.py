"""Ordinary words of the configuration, which reach tools, files and people unchanged."""

from contextlib import aclosing
from pathlib import Path
from typing import Any

from agent import events
from agent.agent import Agent
from agent.providers.scripted import ScriptedProvider
from agent.security.policy.engine import FullAccessPolicy
from agent.settings import AgentSettings
from agent.tools.runner import Permissions
from agent.types import ToolCall, assistant
from gateway.runtime.secrets import secret_values
from tests.agent.props import call
from tests.gateway.config.loading import load

CONFIG: dict[str, Any] = {
    "store": {"url": "postgresql://postgres@127.0.0.1/kore"},
    "model_list": [{"model_name": "m", "model": "vllm/qwen", "api_key": "sk-no-key-required"}],
    "mcp_servers": {
        "off": {
            "command": "x",
            "args": ["--sort-key", "created_at"],
            "env": {"STAGE": "production", "PGPASSWORD": "postgres15"},
            "enabled": False,
        },
        "far": {"url": "https://reader@example.org/x", "headers": {"X-Team": "platform-team"}},
    },
}
WORDS = "postgres production reader created_at platform-team sk-no-key-required postgres15"


async def _run(folder: Path, *steps: ToolCall | str) -> list[events.Event]:
    replies = [assistant("", (step,)) if isinstance(step, ToolCall) else step for step in steps]
    settings = load(folder, CONFIG)
    agent = Agent(
        ScriptedProvider(replies),
        workspace=folder / "work",
        settings=AgentSettings(secrets=secret_values(settings, {})),
        approve=Permissions(FullAccessPolicy()),
    )
    async with agent, aclosing(agent.stream("go on")) as stream:
        return [event async for event in stream]


async def test_command_deletes_the_named_folder_only(tmp_path: Path) -> None:
    work = tmp_path / "work"
    for name in ("postgres", "project"):
        (work / name).mkdir(parents=True)
        (work / name / "file.txt").write_text("text")
    await _run(tmp_path, call("exec", command="rm -rf postgres"), "done")
    assert not (work / "postgres").exists()
    assert (work / "project" / "file.txt").read_text() == "text"


async def test_file_is_written_as_the_model_wrote_it(tmp_path: Path) -> None:
    text = f"image: postgres:15\n# {WORDS}\n"
    (tmp_path / "work").mkdir()
    await _run(tmp_path, call("write_file", path="compose.yaml", content=text), "done")
    assert (tmp_path / "work" / "compose.yaml").read_text() == text


async def test_edit_quotes_the_word(tmp_path: Path) -> None:
    file = tmp_path / "work" / "compose.yaml"
    file.parent.mkdir()
    file.write_text("image: postgres:15\n")
    edit = call(
        "edit_file", path="compose.yaml", old_string="postgres:15", new_string="postgres:16"
    )
    await _run(tmp_path, call("read_file", path="compose.yaml"), edit, "done")
    assert file.read_text() == "image: postgres:16\n"


async def test_person_reads_words_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    seen = await _run(tmp_path, f"We go to {WORDS} now.")
    done = seen[-1]
    assert isinstance(done, events.Done)
    assert done.result.text == f"We go to {WORDS} now."
