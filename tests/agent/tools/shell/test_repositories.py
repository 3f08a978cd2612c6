"""Everyday git in a sandbox: in projects with configuration, worktrees and submodules."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.sandbox.base import SandboxCommand
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.landlock.sandbox import Landlock
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.files.workspace_scope import WorkspaceScope
from agent.tools.shell.exec import Exec

IDENTITY = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
COMMIT = f"git {' '.join(IDENTITY)} commit -qm"


def git(folder: Path, *arguments: str) -> str:
    """Run the person's own git, outside of the sandbox."""
    command = ["git", *IDENTITY, "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repository(workspace: Path) -> Path:
    git(workspace, "init", "-q", "-b", "main")
    git(workspace, "commit", "-q", "--allow-empty", "-m", "first")
    return workspace


async def run_exec(
    box: Bubblewrap, call: CallContext, command: str, settings: ToolSettings | None = None
) -> str:
    tool = Exec(replace(settings or ToolSettings(), sandbox=box))
    return (await tool.run({"command": command}, call)).for_model


async def test_policy_file_in_the_project_is_readable_but_fixed(
    box: Bubblewrap, call: CallContext, repository: Path
) -> None:
    policy = repository / "conf" / "policy.yaml"
    policy.parent.mkdir()
    policy.write_text("rules: []\n")
    settings = replace(ToolSettings(), fixed_files=(policy,))
    line = f"cat conf/policy.yaml && git add conf && {COMMIT} policy && git log --format=%s"
    shown = await run_exec(box, call, line, settings)
    assert shown.splitlines()[:3] == ["rules: []", "policy", "first"]
    for attempt in (
        "echo x >conf/policy.yaml",
        "rm -f conf/policy.yaml",
        "mv conf old; mkdir conf; echo x >conf/policy.yaml",
        "git rm -q conf/policy.yaml",
        "echo x >new; mv new conf/policy.yaml",
    ):
        await run_exec(box, call, attempt, settings)
        assert policy.read_text() == "rules: []\n", attempt
    with pytest.raises(ToolError, match="part of Kore"):
        WorkspaceScope(settings).find("conf/policy.yaml", call)


@pytest.mark.skipif(os.geteuid() != 0, reason="runs as another user for a while")
def test_landlock_refuses_commands_that_could_change_the_policy_file(workspace: Path) -> None:
    policy = workspace / "policy.yaml"
    job = SandboxCommand("true", workspace, workspace, locked_paths=(policy,))
    os.seteuid(65534)
    try:
        with pytest.raises(ToolError, match="policy.yaml"), Landlock(5).prepare(job):
            pass
    finally:
        os.seteuid(0)
