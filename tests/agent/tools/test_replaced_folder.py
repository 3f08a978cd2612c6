"""Tools and sandboxes reject a link or another folder in place of a conversation's folder."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import ToolError
from agent.security.files.folder_identity import FolderIdentity, FolderReplaced
from agent.security.policy.base import Decision, ToolRequest
from agent.security.sandbox.base import Sandbox, SandboxCommand
from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.container import ContainerSandbox
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.built_in import default_tools
from agent.tools.registry import ToolRegistry
from agent.tools.runner import Permissions, ToolRunner
from agent.types import ToolCall
from tests.ordinary_user import ROOT, USERS, require_sandbox, run_as, shared_place

PROGRAM = Path(__file__).with_name("replaced_folder.py").relative_to(ROOT)
SANDBOXES = [
    (user, name)
    for user in USERS
    for name in ("bwrap", "landlock")
    if (user, name) != ("root", "landlock")
]
SECRET = "the secret of another folder"

CALLS: dict[str, dict[str, Any]] = {
    "read_file": {"path": "secret.txt"},
    "list_dir": {"path": "."},
    "grep": {"pattern": "secret"},
    "glob": {"pattern": "*"},
    "write_file": {"path": "new.txt", "content": "x"},
    "append_file": {"path": "secret.txt", "content": "x"},
    "edit_file": {"path": "secret.txt", "old_string": "secret", "new_string": "x"},
    "move_file": {"source": "secret.txt", "target": "moved.txt"},
    "exec": {"command": "cat secret.txt; touch new.txt"},
}


class AllowAll:
    def decide(self, request: ToolRequest) -> Decision:
        return Decision("allow", "a test", "test")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


def put_link(workspace: Path, target: Path) -> None:
    workspace.rename(workspace.with_name("moved"))
    workspace.symlink_to(target)


def put_folder(workspace: Path, target: Path) -> None:
    workspace.rename(workspace.with_name("moved"))
    target.rename(workspace)


@pytest.fixture(params=[put_link, put_folder])
def put(request: pytest.FixtureRequest) -> Callable[[Path, Path], None]:
    chosen: Callable[[Path, Path], None] = request.param
    return chosen


def taken(call: CallContext) -> CallContext:
    """Return the context of a call in a turn that began in the workspace."""
    identity = FolderIdentity.of(call.workspace)
    return replace(call, environment=replace(call.environment, identity=identity))


async def run_call(call: CallContext, box: Bubblewrap, name: str) -> str:
    settings = ToolSettings(sandbox=box)
    toolbox = ToolRegistry(default_tools(settings))
    runner = ToolRunner(toolbox, Permissions(AllowAll()), timeout_s=20)

    async def started() -> None:
        return None

    context = replace(call, call=ToolCall("c1", name, CALLS[name], "{}"))
    return (await runner.run(context, started)).for_model


@pytest.mark.parametrize("name", CALLS)
async def test_every_call_is_rejected(
    call: CallContext,
    box: Bubblewrap,
    elsewhere: Path,
    put: Callable[[Path, Path], None],
    name: str,
) -> None:
    context = taken(call)
    put(call.workspace, elsewhere)
    text = await run_call(context, box, name)
    assert "is no longer the folder that was chosen" in text
    assert SECRET not in text
    assert os.listdir(call.workspace) == ["secret.txt"]
    assert (call.workspace / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize("name", CALLS)
async def test_tools_do_not_follow_a_planted_link(
    call: CallContext, box: Bubblewrap, elsewhere: Path, name: str
) -> None:
    put_link(call.workspace, elsewhere)
    text = await run_call(call, box, name)
    assert SECRET not in text
    assert os.listdir(elsewhere) == ["secret.txt"]
    assert (elsewhere / "secret.txt").read_text() == SECRET


@pytest.mark.parametrize("name", ["bubblewrap", "container"])
def test_sandbox_rejects_a_replaced_folder(
    name: str, box: Bubblewrap, workspace: Path, elsewhere: Path, put: Callable[[Path, Path], None]
) -> None:
    boxes: dict[str, Sandbox] = {"bubblewrap": box, "container": ContainerSandbox("x", "y")}
    job = SandboxCommand(
        "cat secret.txt", workspace, workspace, identity=FolderIdentity.of(workspace)
    )
    put(workspace, elsewhere)
    with pytest.raises(FolderReplaced), boxes[name].prepare(job):
        pass


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with shared_place(PROGRAM) as folder:
        yield folder


@pytest.fixture(params=SANDBOXES, ids="-".join)
def replace_folder(place: Path, request: pytest.FixtureRequest) -> Callable[..., dict[str, Any]]:
    """Return a function that runs replaced_folder.py and returns its output."""
    user, name = request.param
    require_sandbox(name)

    def play(put: str, *, is_early: bool) -> dict[str, Any]:
        order = {"name": name, "put": put, "is_early": is_early}
        result: dict[str, Any] = run_as(user, place, PROGRAM, order)
        return result

    return play


@pytest.mark.parametrize("put", ["link", "folder"])
def test_sandbox_of_every_user_rejects_a_replaced_folder(
    replace_folder: Callable[..., dict[str, Any]], put: str
) -> None:
    result = replace_folder(put, is_early=True)
    assert result["refused"]
    assert (result["elsewhere"], result["moved"]) == (["secret.txt"], ["own.txt"])


@pytest.mark.parametrize("put", ["link", "folder"])
def test_folder_replaced_after_the_check_is_not_followed(
    replace_folder: Callable[..., dict[str, Any]], put: str
) -> None:
    result = replace_folder(put, is_early=False)
    assert not result["refused"]
    assert result["output"] == "own.txt"
    assert (result["elsewhere"], result["moved"]) == (["secret.txt"], ["new", "own.txt"])


def test_root_of_the_file_system_is_not_a_workspace(box: Bubblewrap) -> None:
    job = SandboxCommand("true", Path("/"), Path("/"))
    with pytest.raises(ToolError, match="whole file system"), box.prepare(job):
        pass
