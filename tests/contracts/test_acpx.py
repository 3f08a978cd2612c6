"""`kore acp` with a client that we did not write: npm `acpx`. Without it this test skips."""

import asyncio
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.cli.acp.test_editor import KEY, Desk


async def test_a_prompt_with_a_tool_is_answered(tmp_path: Path) -> None:
    command = shutil.which("acpx")
    if command is None:
        pytest.skip("acpx is not installed")
    async with ModelServer(api_key=KEY) as model:
        desk = Desk(tmp_path, model)
        read = Call("read_file", {"path": "a.py"})
        model.script(ReplyScript(tool_calls=(read,)), "The total is one.")
        agent = f"{sys.executable} -m gateway acp"
        environ = {"PATH": os.environ["PATH"], "HOME": str(desk.home), "KORE_HOME": str(desk.home)}
        client = await asyncio.create_subprocess_exec(
            *(command, "--agent", agent, "exec", "what is the total?"),
            cwd=desk.project,
            env=environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await asyncio.wait_for(client.communicate(), 100)
    text = out.decode()
    assert "The total is one." in text
    assert "read_file a.py" in text
    assert "[done] end_turn" in text
