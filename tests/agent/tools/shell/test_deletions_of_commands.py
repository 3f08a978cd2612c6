"""Commands that delete files: the approval request, undo and restored repositories."""

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.security.policy.base import Deletion
from agent.settings import ToolSettings
from agent.tools.shell.exec import Exec
from tests.agent.tools.bubblewrap import installed_bubblewrap
from tests.agent.undo.scene import Scene

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    settings = ToolSettings(sandbox=installed_bubblewrap(), temporary_folder=tmp_path / "temporary")
    scene = Scene(tmp_path / "project", tmp_path / "undo", settings=settings)
    git(scene.root, "init", "-q", "-b", "main")
    (scene.root / ".gitignore").write_text("*.env\n")
    (scene.root / "secret.env").write_text("KEY=1\n")
    (scene.root / "a.txt").write_text("one\n")
    git(scene.root, "add", "a.txt", ".gitignore")
    git(scene.root, "commit", "-q", "-m", "one")
    return scene


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout


async def planned(scene: Scene, command: str, **args: object) -> Deletion | None:
    call = scene.context("exec")
    return (await Exec(scene.settings).plan({"command": command, **args}, call)).deletion


async def test_deletion_plan_lists_what_undo_cannot_restore(scene: Scene) -> None:
    deletion = await planned(scene, "rm -rf .git secret.env a.txt")
    assert deletion is not None
    assert dict(deletion.lost) == {"git": (".git/",), "ignored": ("secret.env",)}
    assert deletion.restorable == ("a.txt",)
    assert await planned(scene, "rm a.txt") == Deletion(restorable=("a.txt",))
    assert await planned(scene, "ls") is None
    assert await planned(scene, "echo x > a.txt") is None


async def test_background_command_is_not_recorded(scene: Scene) -> None:
    deletion = await planned(scene, "rm a.txt", background=True)
    assert deletion is not None
    assert dict(deletion.lost) == {"unrecorded": ("a.txt",)}


async def test_command_outside_the_sandbox_plans_outside_files(scene: Scene) -> None:
    outside = scene.root.parent / "other.txt"
    deletion = await planned(scene, f"rm {outside}", outside=True, reason="it is mine")
    assert deletion is not None
    assert dict(deletion.lost) == {"outside": (str(outside),)}


@pytest.mark.parametrize(
    "command",
    [
        "D=.git; rm -rf $D",
        "find . -delete",
        "python3 -c 'import shutil; shutil.rmtree(\".git\", ignore_errors=True)'",
    ],
)
def test_repository_deleted_indirectly_is_restored(scene: Scene, command: str) -> None:
    """Run under bubblewrap, where parts of `.git` are read-only."""
    commit = git(scene.root, "rev-parse", "main")
    result = scene.call("exec", command=command)
    assert "repository .git" in result.for_model
    assert git(scene.root, "rev-parse", "main") == commit
    git(scene.root, "fsck", "--strict")


async def test_command_that_could_delete_unprotected_history_asks(scene: Scene) -> None:
    (scene.root / ".git" / "refs" / ("a/" * 45)).mkdir(parents=True)
    deletion = await planned(scene, "python3 work.py")
    assert deletion is not None
    assert deletion.is_final
    assert dict(deletion.lost) == {"unprotected": (".git",)}
    assert await planned(scene, "git log") is None
    result = await asyncio.to_thread(scene.call, "exec", command="echo x > new.txt")
    assert "history of the repository .git was not protected" in result.for_model


def test_clone_in_a_build_folder_is_deleted_with_it(scene: Scene) -> None:
    git(scene.root, "clone", "-q", ".", "build/clone")
    (scene.root / "clean.sh").write_text("rm -rf build\n")
    result = scene.call("exec", command="sh clean.sh")
    assert "put back" not in result.for_model
    assert not (scene.root / "build" / "clone" / ".git" / "HEAD").exists()


@pytest.mark.parametrize(
    "command", ["mv .git build", "mv -t build a.txt './.git/'", "cd build && mv ../.g'it' ."]
)
async def test_move_of_a_repository_asks_like_its_deletion(scene: Scene, command: str) -> None:
    (scene.root / "build").mkdir()
    deletion = await planned(scene, command)
    assert deletion is not None
    assert deletion.is_final
    assert dict(deletion.lost) == {"git": (".git/",)}
    assert await planned(scene, "mv a.txt .gitignore build") is None
    assert await planned(scene, "mv a.txt .git/info") is None


def test_repository_deleted_by_name_stays_deleted(scene: Scene) -> None:
    """Deleting a repository by its name requires approval."""
    result = scene.call("exec", command="rm -rf .git")
    assert "put back" not in result.for_model
    assert not (scene.root / ".git" / "HEAD").exists()


def test_git_commands_work_normally(scene: Scene) -> None:
    line = "git -c user.name=A -c user.email=a@b"
    result = scene.call(
        "exec",
        command=f"echo two > a.txt && {line} commit -qam two && git branch side && git gc -q "
        "&& git branch -D side && git pack-refs --all && git checkout -q -b new",
    )
    assert result.for_model.endswith("[exit code 0]")
    assert "put back" not in result.for_model
    assert git(scene.root, "branch", "--format=%(refname:short)").split() == ["main", "new"]


async def test_move_file_lists_what_undo_does_not_cover(scene: Scene) -> None:
    tool = scene.toolbox.get("move_file")
    for name, lost in (("secret.env", {"ignored": ("secret.env",)}), ("a.txt", {})):
        plan = await tool.plan({"path": name}, scene.context("move_file"))  # type: ignore[attr-defined]
        assert plan.deletion is not None
        assert dict(plan.deletion.lost) == lost
    plan = await tool.plan({"path": "secret.env", "to": "b.env"}, scene.context("move_file"))  # type: ignore[attr-defined]
    assert plan.deletion is None
