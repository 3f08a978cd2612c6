"""Commands that call `apply_patch` as a program."""

from pathlib import Path

import pytest

from agent.settings import ToolSettings
from agent.tools.built_in import default_tools
from agent.tools.registry import ToolRegistry
from agent.tools.shell.patch_command import find_patch
from agent.types import ToolCall

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-x = $HOME\n+y = `z`\n*** End Patch"
HEREDOC = f"<<'EOF'\n{PATCH}\nEOF"


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (f"apply_patch {HEREDOC}", "a.py"),
        (f"apply_patch {HEREDOC}\n", "a.py"),
        (f"apply_patch '{PATCH}'", "a.py"),
        (f"apply_patch <<< '{PATCH}'", "a.py"),
        (f"cd src && apply_patch {HEREDOC}", "src/a.py"),
        (f"cd '/other place' && apply_patch '{PATCH}'", "/other place/a.py"),
    ],
)
def test_patch_of_a_command_has_the_paths_of_its_folder(command: str, path: str) -> None:
    patch = find_patch(command)
    assert patch is not None
    assert patch.strip() == PATCH.replace("a.py", path)
    assert find_patch(command, "/project") is not None


@pytest.mark.parametrize(
    "command",
    [
        f"apply_patch <<EOF\n{PATCH}\nEOF",
        f"apply_patch {HEREDOC} && rm a.py".replace(HEREDOC, f"'{PATCH}'"),
        f"echo hi; apply_patch '{PATCH}'",
        f"cd a; cd b; apply_patch '{PATCH}'",
        f"cd $X && apply_patch '{PATCH}'",
        f"apply_patch '{PATCH}' > out",
        f"apply_patch --check '{PATCH}'",
        f"X=1 apply_patch '{PATCH}'",
        f"git apply_patch '{PATCH}'",
        f"cat {HEREDOC} | apply_patch",
        f"echo apply_patch '{PATCH}'",
        "apply_patch",
    ],
)
def test_other_commands_are_not_patches(command: str) -> None:
    assert find_patch(command) is None


def test_command_is_judged_and_run_as_the_patch_tool(tmp_path: Path) -> None:
    toolbox = ToolRegistry(default_tools(ToolSettings()))
    arguments = {"command": f"apply_patch {HEREDOC}", "workdir": "src"}
    call = toolbox.resolved(ToolCall("1", "exec", arguments, ""))
    assert call.name == "apply_patch"
    assert toolbox.paths(call) == ["src/a.py"]
