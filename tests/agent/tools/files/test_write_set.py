"""Atomic writes of several files."""

import asyncio
import os
import random
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.tools.files.draft_check import Draft
from agent.tools.files.write_set import write_set
from tests import fork_server
from tests.agent.undo.scene import Scene
from tests.agent.undo.set_writer import COUNT


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "workspace", tmp_path / "undo")


def test_all_files_are_written_and_undone_in_one_step(scene: Scene) -> None:
    old, new = scene.root / "old.txt", scene.root / "folder" / "new.txt"
    old.write_bytes(b"\xef\xbb\xbfone\r\n")
    write_set([Draft(old, "one\r\n", "two\r\n"), Draft(new, None, "new\n")], scene.context())
    # The file's own encoding and byte-order mark are preserved.
    assert old.read_bytes() == b"\xef\xbb\xbftwo\r\n"
    assert new.read_text() == "new\n"
    scene.undo()
    assert old.read_bytes() == b"\xef\xbb\xbfone\r\n"
    assert not new.exists()


def test_write_set_is_all_or_nothing(scene: Scene) -> None:
    result, two, stone = (scene.root / name for name in ("a.txt", "b.txt", "stone"))
    result.write_text("one\n")
    stone.write_text("no folder")
    drafts = [
        Draft(result, "one\n", "1\n"),
        Draft(two, None, "2\n"),
        Draft(stone / "c", None, "3\n"),
    ]
    with pytest.raises(ToolError):
        write_set(drafts, scene.context())
    assert result.read_text() == "one\n"
    assert not two.exists()


@pytest.mark.parametrize("text", ["changed\n", None])
def test_file_changed_since_the_draft_is_not_overwritten(scene: Scene, text: str | None) -> None:
    result, two = scene.root / "a.txt", scene.root / "b.txt"
    result.write_text("one\n")
    if text is not None:
        two.write_text(text)
    with pytest.raises(ToolError, match=r"b\.txt"):
        write_set([Draft(result, "one\n", "1\n"), Draft(two, "two\n", "2\n")], scene.context())
    assert result.read_text() == "one\n"


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
async def test_interrupted_write_set_is_undone(tmp_path: Path, kills: int) -> None:
    for number in range(kills):
        folder = tmp_path / str(number)
        folder.mkdir()
        words = ["python", "-m", "tests.agent.undo.set_writer", folder]
        process = await fork_server.start_piped(
            words, cwd=tmp_path, env={"PATH": os.environ["PATH"]}
        )
        assert await process.stdout.readline() == b"begun\n"
        # The random moment is the test's input, not a wait.
        await asyncio.sleep(random.uniform(0, 0.2))
        process.kill()
        await process.communicate()
        scene = Scene(folder / "workspace", folder / "undo")
        result = {path: path.read_text() for path in scene.root.rglob("*.txt")}
        assert len(result) == COUNT
        newest = max(map(int, result.values()))
        assert set(map(int, result.values())) <= {newest, newest - 1}
        scene.undo()
        after = {path.read_text() for path in scene.root.rglob("*.txt")}
        # Undo reverts only the interrupted round.
        assert after <= {f"{newest - 1}\n"}


_WRITES_NAMES_THAT_FOLD = """
import sys
from pathlib import Path
from agent.tools.files.draft_check import Draft
from agent.tools.files.write_set import write_set
from tests.agent.undo.scene import Scene
root = Path(sys.argv[1])
scene = Scene(root / "workspace", root / "undo")
names = ("Makefile", "makefile", "a", "B")
write_set([Draft(scene.root / name, None, name) for name in names], scene.context())
"""


def test_locks_of_names_that_differ_only_in_case_do_not_deadlock(tmp_path: Path) -> None:
    """Run in another process, because a lock that waits for itself would block this one."""
    words = ["python", "-c", _WRITES_NAMES_THAT_FOLD, tmp_path]
    done = fork_server.run(words, cwd=tmp_path, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "workspace" / "makefile").exists()
