"""`kore acp` with a third-party client: npm `acpx`. Skipped if it is not installed."""

import asyncio
import json
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fakes import mcp_server
from tests.fakes.acp_lines import LineCheck
from tests.fakes.editor import KEY, EditorSetup
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript

pytestmark = pytest.mark.counterpart("acpx")


@pytest.fixture
def acpx() -> str:
    command = shutil.which("acpx")
    if command is None:
        pytest.skip("acpx is not installed")
    return command


async def run(acpx: str, setup: EditorSetup, *arguments: str, options: Sequence[str] = ()) -> str:
    """Return acpx's output for one prompt to `kore acp` with these options.

    Each line that Kore writes is checked.
    """
    log, script = setup.home / "lines", setup.home / "agent.sh"
    requests = setup.home / "asked"
    agent = shlex.join(setup.command(*options))
    script.write_text(f"tee {shlex.quote(str(requests))} | {agent} | tee {shlex.quote(str(log))}\n")
    client = await asyncio.create_subprocess_exec(
        *(acpx, "--agent", f"sh {script}", *arguments),
        cwd=setup.project,
        env=setup.environ(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(client.communicate(), 100)
    check = LineCheck()
    for line in requests.read_bytes().splitlines():
        check.note_request(json.loads(line))
    check.lines += log.read_bytes().splitlines()
    assert check.lines
    assert not (faults := check.faults()), faults
    return out.decode()


async def test_prompt_with_a_tool_is_answered(acpx: str, tmp_path: Path) -> None:
    async with ModelServer(api_key=KEY) as model:
        setup = EditorSetup(tmp_path, model)
        read = Call("read_file", {"path": "a.py"})
        model.script(ReplyScript(tool_calls=(read,)), "The total is one.")
        text = await run(acpx, setup, "exec", "what is the total?")
    assert "The total is one." in text
    assert "[tool] Reading a.py" in text
    assert "[done] end_turn" in text


async def test_model_is_selected(acpx: str, tmp_path: Path) -> None:
    async with ModelServer(api_key=KEY) as model:
        setup = EditorSetup(tmp_path, model)
        setup.add_model("big", "openai/large")
        text = await run(acpx, setup, "--model", "big", "exec", "hi")
        assert "[done] end_turn" in text
        assert model.requests[-1].body["model"] == "large"


async def test_server_named_by_acpx_is_used(acpx: str, tmp_path: Path) -> None:
    async with ModelServer(api_key=KEY) as model:
        setup = EditorSetup(tmp_path, model)
        server = {"command": sys.executable, "args": [mcp_server.__file__]}
        servers = tmp_path / "servers.json"
        servers.write_text(json.dumps({"mcpServers": [{"name": "stand", **server, "env": []}]}))
        echo = Call("mcp__stand__echo", {"text": "over here"})
        model.script(ReplyScript(tool_calls=(echo,)), "Said.")
        options = ("--mcp-config", str(servers), "--approve-all")
        text = await run(acpx, setup, *options, "exec", "say it")
        assert "[done] end_turn" in text
        results = [
            message for message in model.requests[-1].body["messages"] if message["role"] == "tool"
        ]
        assert "over here" in results[-1]["content"]


async def test_write_that_acpx_refuses_is_undone(acpx: str, tmp_path: Path) -> None:
    async with ModelServer(api_key=KEY) as model:
        setup = EditorSetup(tmp_path, model)
        write = Call("write_file", {"path": "b.py", "content": "new = 1\n"})
        model.script(ReplyScript(tool_calls=(write,)), "It was refused.")
        denying = ("--approve-reads", "--non-interactive-permissions", "deny")
        mode = ("--permission-mode", "accept-edits")
        await run(acpx, setup, *denying, "exec", "create b.py", options=mode)
        results = [
            message for message in model.requests[-1].body["messages"] if message["role"] == "tool"
        ]
        assert "refused to save" in results[-1]["content"]
        assert not (setup.project / "b.py").exists()
