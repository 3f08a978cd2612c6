"""A folder full of named pipes, in the real program: none of them blocks."""

import os
import time
from pathlib import Path

import pytest

from tests.fakes.bot_api import BotApi
from tests.fakes.model import ModelServer
from tests.gateway.cli.kore import kore
from tests.gateway.end_to_end.gateway_process import KEY, OWNER, GatewayProcess

OFFLINE = {"KORE_AGENT_MODEL": "offline/echo"}
NAMES = (
    ".git/HEAD",
    ".git/config",
    ".gitignore",
    ".kore/agents/x.md",
    ".kore/commands/x.md",
    ".kore/skills/x/SKILL.md",
    ".mcp.json",
    "AGENTS.md",
    "CLAUDE.md",
    "README.md",
    "package.json",
    "pyproject.toml",
)
CONFIGURATION = ".kore/config.json"
# A start takes one or two seconds, and the pipes have no writers.
TIMEOUT_S = 60.0


def fill_with_pipes(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(path)


@pytest.mark.parametrize("is_trusted", [False, True])
def test_agent_answers_in_a_folder_of_pipes(tmp_path: Path, is_trusted: bool) -> None:
    fill_with_pipes(tmp_path, *NAMES)
    home = tmp_path / "h"
    home.mkdir(mode=0o700)
    if is_trusted:
        (home / "config.json").write_text(f'{{"security": {{"trusted_folders": ["{tmp_path}"]}}}}')
    result = kore("agent", "-m", "hi", home=home, environ=OFFLINE, timeout_s=TIMEOUT_S)
    assert result.returncode == 0, result.stderr
    assert "hi" in result.stdout


def test_agent_refuses_a_pipe_as_the_configuration_of_a_folder(tmp_path: Path) -> None:
    fill_with_pipes(tmp_path, CONFIGURATION)
    result = kore("agent", "-m", "hi", home=tmp_path / "h", environ=OFFLINE, timeout_s=TIMEOUT_S)
    assert result.returncode == 2
    assert f"{CONFIGURATION}: not a regular file" in result.stderr


@pytest.mark.parametrize("is_trusted", [False, True])
async def test_gateway_answers_in_a_folder_of_pipes_and_ends(
    tmp_path: Path, is_trusted: bool
) -> None:
    project = tmp_path / "project"
    fill_with_pipes(project, *NAMES, CONFIGURATION)
    trusted = [str(project)] if is_trusted else []
    sections = {
        "telegram": {"chats": {str(OWNER): {"folder": str(project)}}},
        "security": {"trusted_folders": trusted},
    }
    async with (
        BotApi() as api,
        ModelServer(api_key=KEY) as model,
        GatewayProcess(tmp_path, api, model, sections) as gateway,
    ):
        assert await gateway.answers_to(OWNER, "hi")
        assert len(model.requests) == 1
        began = time.monotonic()
        await gateway.stop()
        assert time.monotonic() - began < 10
