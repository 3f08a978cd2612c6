"""Renaming of new steering files after a command that has read untrusted text."""

import asyncio
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from agent.security.files import file_io
from agent.security.sandbox.base import Sandbox
from agent.security.sandbox.bubblewrap import Bubblewrap, features_of
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.shell.exec import Exec

MADE = (
    "HEARTBEAT.md", "feature_list.json", "PROGRESS.md", "AGENTS.md", "Soul.MD", "CLAUDE.md",
    "skills/x/SKILL.md", ".kore/agents/x.md", ".claude/commands/x.md", ".kode/x", ".envrc",
    ".vscode/tasks.json", ".mcp.json", "memory/MEMORY.md",
)  # fmt: skip


@pytest.fixture(params=["none", "bwrap"])
def run(request: pytest.FixtureRequest) -> Callable[[CallContext, str], "asyncio.Future[str]"]:
    box: Sandbox | None = None
    if request.param == "bwrap":
        program = shutil.which("bwrap")
        if program is None:
            pytest.skip("bubblewrap is not installed")
        process = subprocess.run([program, "--help"], capture_output=True, text=True, check=True)
        box = Bubblewrap(program, features_of(process.stdout))
    tool = Exec(replace(ToolSettings(), sandbox=box))

    async def run_exec(call: CallContext, command: str) -> str:
        return (await tool.run({"command": command}, call)).for_model

    return lambda call, command: asyncio.ensure_future(run_exec(call, command))


@pytest.fixture
def tainted(call: CallContext) -> CallContext:
    return replace(call, taint=frozenset({"untrusted"}))


Run = Callable[[CallContext, str], "asyncio.Future[str]"]


@pytest.mark.parametrize("name", MADE)
async def test_steering_file_is_set_aside(
    run: Run, tainted: CallContext, workspace: Path, name: str
) -> None:
    top = name.partition("/")[0]
    folder = f"mkdir -p {Path(name).parent} && " if "/" in name else ""
    process = await run(tainted, f"{folder}echo obey > {name}")
    assert not (workspace / name).exists()
    aside = workspace / name.replace(top, f"{top}.set-aside")
    assert aside.read_text() == "obey\n"
    assert f"{top} was renamed to {top}.set-aside" in process


async def test_link_and_second_steering_file_are_set_aside(
    run: Run, tainted: CallContext, workspace: Path
) -> None:
    (workspace / "notes.txt").write_text("mine")
    for _ in range(2):
        await run(tainted, "ln -s notes.txt HEARTBEAT.md")
    assert not (workspace / "HEARTBEAT.md").is_symlink()
    assert (workspace / "HEARTBEAT.md.set-aside-2").is_symlink()
    assert (workspace / "notes.txt").read_text() == "mine"


async def test_untainted_and_other_files_are_not_set_aside(
    run: Run, call: CallContext, tainted: CallContext, workspace: Path
) -> None:
    await run(call, "echo mine > HEARTBEAT.md")
    assert (workspace / "HEARTBEAT.md").read_text() == "mine\n"
    await run(tainted, "echo x > report.md; mkdir -p docs; echo y > docs/AGENTS.md")
    assert (workspace / "HEARTBEAT.md").read_text() == "mine\n"
    assert (workspace / "report.md").exists()
    assert (workspace / "docs" / "AGENTS.md").exists()


async def test_approved_file_of_another_session_is_not_set_aside(
    run: Run, tainted: CallContext, workspace: Path
) -> None:
    """Another conversation in the same workspace has approved the file."""
    running = run(tainted, "touch begun; while [ ! -e HEARTBEAT.md ]; do sleep 0.01; done")
    async with asyncio.timeout(30):
        while not (workspace / "begun").exists():
            await asyncio.sleep(0.01)
    file_io.write_atomic(workspace / "HEARTBEAT.md", b"mine")
    await running
    assert (workspace / "HEARTBEAT.md").read_text() == "mine"
