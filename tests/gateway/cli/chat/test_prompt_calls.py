"""`/NAME` in one-shot runs: commands and skills."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from tests import postgres_server
from tests.agent.skills.skill_files import write
from tests.fakes.model import ModelServer
from tests.fork_server import start_piped

SKILL = "---\ndescription: Makes a release.\n---\nTag $0 now."


@pytest.mark.parametrize("option", [("-p",), ("agent", "-m")])
async def test_one_shot_run_invokes_commands_and_skills(
    model_server: ModelServer, tmp_path: Path, option: tuple[str, ...]
) -> None:
    home = tmp_path / "home"
    entry = {"model_name": "default", "model": "openai/x", "api_base": model_server.base_url}
    write(home / "skills", "make-release", SKILL)
    (home / "config.json").write_text(json.dumps({"model_list": [{**entry, "api_key": "k"}]}))
    (home / "commands").mkdir()
    (home / "commands" / "fix.md").write_text("Mend $ARGUMENTS.")
    own = {"KORE_HOME": str(home), **postgres_server.environ_of(home)}
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)} | own
    for typed, text in (
        ("/make-release v1", "Tag v1 now."),
        ("/fix issue 7", "Mend issue 7."),
        ("/etc and /usr?", "/etc and /usr?"),
    ):
        process = await start_piped((*option, typed), cwd=tmp_path, env=environ)
        async with asyncio.timeout(120):
            out, err = await process.communicate()
        assert process.returncode == 0, err
        assert out
        body = model_server.requests[-1].raw.decode()
        assert text in body
        assert typed in body
