"""Tools in a folder of the workspace where commands and relative paths start."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.policy.call_effects import call_effects
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.settings import ToolSettings
from agent.tools.base import CallContext, EffectPlan
from agent.tools.files.glob import Glob
from agent.tools.files.grep import Grep
from agent.tools.files.read_write import ReadFile, WriteFile
from agent.tools.shell.exec import Exec


@pytest.fixture
def part(workspace: Path) -> Path:
    folder = workspace / "packages" / "api"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text("import shared\n")
    (workspace / "packages" / "shared.py").write_text("value = 1\n")
    return folder


@pytest.fixture
def there(call: CallContext, part: Path) -> CallContext:
    return replace(call, environment=replace(call.environment, start_folder=part))


async def test_relative_paths_start_there(there: CallContext, part: Path) -> None:
    text = (await ReadFile(ToolSettings()).run({"path": "main.py"}, there)).for_model
    assert text == "1\timport shared"
    await WriteFile(ToolSettings()).run({"path": "new.py", "content": "x = 1\n"}, there)
    assert (part / "new.py").read_text() == "x = 1\n"


async def test_whole_workspace_can_be_used(there: CallContext, workspace: Path) -> None:
    read = ReadFile(ToolSettings())
    for path in ("../shared.py", str(workspace / "packages" / "shared.py")):
        assert (await read.run({"path": path}, there)).for_model == "1\tvalue = 1"
    with pytest.raises(ToolError, match="outside the workspace"):
        await read.run({"path": "../../../secret"}, there)


async def test_results_name_paths_as_tools_accept_them(there: CallContext) -> None:
    files = (await Glob(ToolSettings()).run({"pattern": "*.py"}, there)).for_model
    assert files.splitlines()[:1] == ["main.py"]
    matches = await Grep(ToolSettings()).run({"pattern": "value", "path": ".."}, there)
    assert "../shared.py" in matches.for_model


async def test_link_in_its_place_leads_nowhere(
    there: CallContext, workspace: Path, part: Path
) -> None:
    (workspace.parent / "other").mkdir()
    (workspace.parent / "other" / "main.py").write_text("secret\n")
    part.rename(workspace / "moved")
    part.symlink_to(workspace.parent / "other")
    with pytest.raises(ToolError, match="outside the workspace"):
        await ReadFile(ToolSettings()).run({"path": "main.py"}, there)
    with pytest.raises(ToolError, match="outside the workspace"):
        await Exec(ToolSettings()).run({"command": "pwd"}, there)


async def test_git_works_there(
    box: Bubblewrap, there: CallContext, workspace: Path, part: Path
) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=workspace, check=True)
    tool = Exec(replace(ToolSettings(), sandbox=box))
    command = "pwd && git add main.py && git status --short && echo x > main.py"
    result = (await tool.run({"command": command}, there)).for_model
    assert result.splitlines()[0] == str(part)
    assert "A  main.py" in result
    assert (part / "main.py").read_text() == "x\n"


async def test_commands_cannot_change_its_instructions(
    box: Bubblewrap, there: CallContext, workspace: Path, part: Path
) -> None:
    for folder in (part, part.parent):
        (folder / "AGENTS.md").write_text("Use tabs.\n")
    tool = Exec(replace(ToolSettings(), sandbox=box))
    await tool.run({"command": "echo x > AGENTS.md; echo x > ../AGENTS.md"}, there)
    for folder in (part, part.parent):
        assert (folder / "AGENTS.md").read_text() == "Use tabs.\n"


def test_policy_resolves_paths_as_the_tool_does(there: CallContext, part: Path) -> None:
    arguments = {"path": "../shared.py"}
    request = EffectPlan().request(
        ReadFile(ToolSettings()), arguments, there.workspace, start_folder=there.base
    )
    assert call_effects(request).reads == (part.parent / "shared.py",)


async def test_instructions_of_the_folders_around_it_are_not_repeated(
    there: CallContext, part: Path
) -> None:
    (part.parent / "AGENTS.md").write_text("in the system prompt")
    (part / "inner").mkdir()
    (part / "inner" / "AGENTS.md").write_text("Use blanks here.")
    (part / "inner" / "a.py").write_text("one\n")
    read = ReadFile(ToolSettings())
    assert (await read.run({"path": "main.py"}, there)).for_model == "1\timport shared"
    assert "Use blanks here." in (await read.run({"path": "inner/a.py"}, there)).for_model
