"""`move_file`, alone and with permissions and change log."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.security.taint.file_marks import is_marked, mark_tainted
from agent.security.taint.taint import UNTRUSTED
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.files import move
from agent.tools.files.move import MoveFile
from tests.agent.undo.scene import Scene
from tests.deep_folders import deep_folders


@pytest.fixture
def tree(workspace: Path) -> Path:
    (workspace / "src" / "deep").mkdir(parents=True)
    (workspace / "src" / "a.py").write_text("a = 1\n")
    (workspace / "src" / "deep" / "b.py").write_text("b = 2\n")
    (workspace / "notes.txt").write_text("one\ntwo\n")
    return workspace


async def run(call: CallContext, path: str, to: str | None = None) -> str:
    args = {"path": path} | ({"to": to} if to else {})
    return (await MoveFile(ToolSettings()).run(args, call)).for_model


async def test_file_is_renamed_moved_and_deleted(call: CallContext, tree: Path) -> None:
    await run(call, "notes.txt", "new/kept.txt")
    assert (tree / "new" / "kept.txt").read_text() == "one\ntwo\n"
    await run(call, "new/kept.txt", "src")
    assert (tree / "src" / "kept.txt").read_text() == "one\ntwo\n"
    assert "Deleted" in await run(call, "src/kept.txt")
    assert not (tree / "src" / "kept.txt").exists()


async def test_folder_is_moved_with_its_content(call: CallContext, tree: Path) -> None:
    assert "(2 files)" in await run(call, "src", "lib")
    assert (tree / "lib" / "deep" / "b.py").read_text() == "b = 2\n"
    assert not (tree / "src").exists()
    await run(call, "lib")
    assert not (tree / "lib").exists()


async def test_plan_names_every_file_and_shows_lost_content(call: CallContext, tree: Path) -> None:
    tool = MoveFile(ToolSettings())
    plan = await tool.plan({"path": "src", "to": "lib"}, call)
    assert set(plan.changes) == {tree / "src", tree / "src/a.py", tree / "src/deep/b.py"}
    assert set(plan.creates) == {tree / "lib", tree / "lib/a.py", tree / "lib/deep/b.py"}
    assert plan.diff == "rename from src\nrename to lib"
    plan = await tool.plan({"path": "src"}, call)
    assert plan.creates == ()
    assert "-a = 1" in (plan.diff or "")
    assert "-b = 2" in (plan.diff or "")


@pytest.mark.parametrize(
    ("path", "to", "words"),
    [
        ("nots.txt", "x", "Similar"),
        ("notes.txt", "src/a.py", "already exists"),
        ("src", "src/deep/within", "is inside"),
        (".", "elsewhere", "contains the workspace"),
        ("..", None, "outside the workspace"),
        ("notes.txt", "closed/x", "blocked"),
        ("closed", "open", "blocked"),
        ("", "x", "path"),
    ],
)
async def test_impossible_move_is_an_error(
    call: CallContext, tree: Path, path: str, to: str | None, words: str
) -> None:
    (tree / "closed").mkdir()
    tool = MoveFile(replace(ToolSettings(), blocked_paths=("closed",)))
    args = {"path": path} | ({"to": to} if to else {})
    with pytest.raises(ToolError, match=words):
        await tool.plan(args, call)
    with pytest.raises(ToolError, match=words):
        await tool.run(args, call)
    assert (tree / "notes.txt").read_text() == "one\ntwo\n"


async def test_folder_with_a_protected_file_is_not_moved(call: CallContext, tree: Path) -> None:
    (tree / "src" / "deep" / ".env").write_text("KEY=1")
    tool = MoveFile(replace(ToolSettings(), blocked_paths=(".env",)))
    for args in ({"path": "src"}, {"path": "src", "to": "lib"}):
        with pytest.raises(ToolError, match="blocked"):
            await tool.run(args, call)
    assert (tree / "src" / "deep" / ".env").exists()


async def test_files_of_other_people_cannot_be_moved(call: CallContext, tree: Path) -> None:
    (tree / "USER.md").write_text("secret")
    guest = replace(call, environment=replace(call.environment, owner=False))
    with pytest.raises(ToolError, match="belongs to someone else"):
        await run(guest, "USER.md", "mine.md")
    with pytest.raises(ToolError, match="belongs to someone else"):
        await run(guest, "notes.txt", "memory/x.md")


async def test_link_itself_is_moved_and_deleted(
    call: CallContext, tree: Path, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (tree / "link").symlink_to(outside)
    await run(call, "link", "other")
    assert os.readlink(tree / "other") == str(outside)
    await run(call, "other")
    assert (outside / "precious").read_text() == "x"
    (tree / "src" / "inner").symlink_to(outside)
    await run(call, "src")
    assert (outside / "precious").read_text() == "x"
    (tree / "link").symlink_to(outside)
    with pytest.raises(ToolError, match="outside the workspace"):
        await run(call, "link/precious", "stolen")


async def test_marks_survive_a_move(call: CallContext, tree: Path) -> None:
    mark_tainted(tree / "src" / "a.py", tree)
    await run(call, "src", "lib/inner")
    assert is_marked(tree / "lib" / "inner" / "a.py")
    exposed = replace(call, taint=UNTRUSTED)
    await run(exposed, "notes.txt", "plan.txt")
    assert is_marked(tree / "plan.txt")


async def test_too_many_files_are_rejected(call: CallContext, tree: Path) -> None:
    for n in range(move.MAX_FILES + 1):
        (tree / "src" / f"{n}.txt").touch()
    with pytest.raises(ToolError, match="more than 500 files"):
        await run(call, "src")


def test_move_is_undone(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "project", tmp_path / "undo")
    (scene.root / "src").mkdir(parents=True)
    (scene.root / "src" / "a.py").write_text("a = 1\n")
    scene.call("move_file", path="src", to="lib")
    scene.call("move_file", path="lib")
    assert not (scene.root / "lib").exists()
    scene.call("undo", steps=2)
    assert (scene.root / "src" / "a.py").read_text() == "a = 1\n"
    assert not (scene.root / "lib").exists()


async def test_folder_too_deep_for_a_path_is_rejected(call: CallContext, tree: Path) -> None:
    top = tree / "deep"
    with deep_folders(top):
        with pytest.raises(ToolError, match=r"cannot be used|too long|looked at"):
            await run(call, "deep", "elsewhere")
        assert (top / "first.txt").exists()
