"""Processing of tool results by the runner, independent of the tool."""

import errno
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.providers.scripted import ScriptedProvider
from agent.security.taint.file_marks import is_marked
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.settings import AgentSettings
from agent.tools.base import CallContext
from agent.types import Taint, ToolResult
from tests.agent.props import FREE, Handmade, call, calls, results

WHOLE = "".join(f"line {n} of many\n" for n in range(5_000))


async def run(folder: Path, text: str, taint: frozenset[Taint] = NOTHING) -> str:
    """Return the model's view of a result with this text from a third-party tool."""

    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        return ToolResult(text, taint=taint)

    model = ScriptedProvider([calls(call("act")), "bye"])
    settings = AgentSettings(secrets=frozenset({"s3cr3t-value"}))
    tools = [Handmade("act", body)]
    agent = Agent(model, tools=tools, approve=FREE, workspace=folder, settings=settings)
    (result,) = results((await agent.run("go")).messages)
    return result


async def test_long_result_of_any_tool_is_cut_saved_and_redacted(tmp_path: Path) -> None:
    process = await run(tmp_path, f"{WHOLE}s3cr3t-value\n")
    assert process.startswith("line 0 of many\n")
    assert len(process.encode()) < 30_300
    (result,) = (tmp_path / ".kore/spill").glob("*.txt")
    assert f"bytes left out; whole text in {result})" in process
    assert result.read_text().startswith(WHOLE)
    assert "s3cr3t-value" not in result.read_text() + process


async def test_output_just_over_the_limit_is_saved(tmp_path: Path) -> None:
    assert await run(tmp_path, "x" * 10_500) == "x" * 10_500
    assert not (tmp_path / ".kore").exists()


async def test_saved_result_is_marked_like_its_source(tmp_path: Path) -> None:
    await run(tmp_path, WHOLE, UNTRUSTED)
    (result,) = (tmp_path / ".kore/spill").glob("*.txt")
    if not is_marked(tmp_path):
        pytest.skip("this file system keeps no marks")
    assert is_marked(result)


@pytest.mark.programs("git")
async def test_saved_results_are_ignored_by_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    own = tmp_path / ".kore"
    own.mkdir()
    (own / "agents").mkdir()
    (own / "agents" / "mine.md").write_text("---\nname: mine\n---\n")
    await run(tmp_path, WHOLE)
    words = ["git", "-C", tmp_path, "status", "--porcelain", "-uall"]
    output = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "spill" not in output
    assert "mine.md" in output


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
async def test_disk_error_is_not_reported_as_a_bug(
    tmp_path: Path, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        raise OSError(number, os.strerror(number), "copy")

    model = ScriptedProvider([calls(call("act")), "bye"])
    agent = Agent(model, tools=[Handmade("act", body)], approve=FREE, workspace=tmp_path)
    (result,) = results((await agent.run("go")).messages)
    assert result == f"act failed: {os.strerror(number)}."
    assert "Traceback" not in caplog.text
