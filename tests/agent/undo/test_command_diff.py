"""Undo of commands in the workspace, within the limits."""

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.settings import ToolSettings
from agent.undo.command_diff import CommandChangeDetector
from agent.undo.snapshot import SnapshotLimits
from tests.agent.undo.scene import Scene

FolderState = dict[str, tuple[str, int, bytes]]


def folder_state(root: Path) -> FolderState:
    """Return everything below a folder except `.kore`."""
    state: FolderState = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        mode = path.lstat().st_mode & 0o777
        if path.is_symlink():
            state[name] = ("link", 0, os.readlink(path).encode())
        elif path.is_dir():
            state[name] = ("folder", mode, b"")
        else:
            state[name] = ("file", mode, path.read_bytes())
    return {name: value for name, value in state.items() if not name.startswith(".kore")}


def fill(root: Path) -> None:
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "a.py").write_text("a = 1\n")
    (root / "src" / "deep" / "b.py").write_text("b = 2\n")
    (root / "run.sh").write_text("echo\n")
    (root / "run.sh").chmod(0o755)
    (root / "latest").symlink_to("src/a.py")
    (root / "empty").mkdir()


@contextmanager
def command(scene: Scene, limits: SnapshotLimits | None = None) -> Iterator[list[str]]:
    """Record the block as a command's work and return the notes for the person."""
    work = CommandChangeDetector(scene.origin("exec"), scene.changes, limits=limits)
    work.begin()
    try:
        yield work.notes
    finally:
        work.end()


WORKS = [
    "sed -i s/1/3/ src/a.py",
    "rm -r src empty latest",
    "mkdir -p new/er && echo x > new/er/x && mv run.sh new/",
    "rm src/a.py && mkdir src/a.py && echo y > src/a.py/y",
    "rm -r src && echo now a file > src",
    "chmod 600 run.sh && ln -sfn src/deep latest",
    "printf 'b = 2' > src/deep/b.py; cp -r src copy; exit 3",
]


@pytest.mark.parametrize("line", WORKS)
def test_command_is_undone_and_redone(scene: Scene, line: str) -> None:
    fill(scene.root)
    before = folder_state(scene.root)
    scene.call("exec", command=line)
    after = folder_state(scene.root)
    assert after != before
    scene.undo()
    assert folder_state(scene.root) == before
    scene.redo()
    assert folder_state(scene.root) == after
    scene.undo()
    assert folder_state(scene.root) == before


def test_confined_read_only_command_takes_no_snapshot(tmp_path: Path) -> None:
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bubblewrap is not installed")
    for sandbox in (Bubblewrap(program, frozenset()), None):
        folder = tmp_path / str(sandbox is None)
        folder.mkdir()
        settings = replace(ToolSettings(), sandbox=sandbox)
        scene = Scene(folder / "workspace", folder / "undo", settings=settings)
        fill(scene.root)
        assert "echo" in scene.call("exec", command="cat run.sh").for_model
        assert (scene.store / "blobs").exists() is (sandbox is None)


def test_interrupted_command_is_undone(scene: Scene) -> None:
    fill(scene.root)
    before = folder_state(scene.root)
    scene.call("exec", command="echo 5 > src/a.py; sleep 60", timeout_s=0.3)
    scene.undo()
    assert folder_state(scene.root) == before


def test_unchanged_tree_is_not_read_again(scene: Scene) -> None:
    fill(scene.root)
    # A file that has just changed is read again, so wait until none has.
    while time.time() - max(p.lstat().st_ctime for p in scene.root.rglob("*")) < 1.2:
        time.sleep(0.05)
    reads = []
    for _ in range(2):
        work = CommandChangeDetector(scene.origin("exec"), scene.changes)
        work.begin()
        assert work.before is not None
        reads.append(work.before.files_read)
        work.end()
        scene.changes = scene.reopened()
    assert reads == [3, 0]


def test_git_modules_and_ignored_files_are_never_touched(scene: Scene) -> None:
    fill(scene.root)
    for name in (".git/HEAD", "node_modules/m.js", "build/out", "src/a.pyc"):
        path = scene.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("old")
    (scene.root / ".gitignore").write_text("build/\n*.pyc\n")
    with command(scene):
        for name in (".git/HEAD", "node_modules/m.js", "build/out", "src/a.pyc", "run.sh"):
            (scene.root / name).write_text("new")
        (scene.root / "build" / "more").write_text("new")
    scene.undo()
    assert scene.text("run.sh") == "echo\n"
    assert [scene.text(n) for n in (".git/HEAD", "build/out", "src/a.pyc")] == ["new"] * 3
    assert scene.text("build/more") == "new"


def test_files_no_longer_ignored_do_not_count_as_new(scene: Scene) -> None:
    (scene.root / ".gitignore").write_text("kept.txt\n")
    (scene.root / "kept.txt").write_text("theirs")
    with command(scene):
        (scene.root / ".gitignore").unlink()
    scene.undo()
    assert scene.text("kept.txt") == "theirs"
    assert scene.text(".gitignore") == "kept.txt\n"


def test_folder_that_becomes_readable_does_not_count_as_new(scene: Scene) -> None:
    (scene.root / "shut").mkdir()
    (scene.root / "shut" / "theirs.txt").write_text("theirs")
    (scene.root / "shut").chmod(0)
    if os.access(scene.root / "shut", os.R_OK):
        pytest.skip("nothing is closed to root")
    with command(scene):
        (scene.root / "shut").chmod(0o700)
    scene.undo()
    (scene.root / "shut").chmod(0o700)
    assert scene.text("shut/theirs.txt") == "theirs"


def test_large_file_is_reported_as_not_undoable(scene: Scene) -> None:
    (scene.root / "big.bin").write_bytes(b"x" * 2_000_001)
    (scene.root / "a.txt").write_text("one")
    with command(scene) as notes:
        (scene.root / "big.bin").write_bytes(b"y" * 2_000_001)
        (scene.root / "a.txt").write_text("two")
    assert notes == ["cannot be undone, too large or not readable: big.bin"]
    scene.undo()
    assert scene.text("a.txt") == "one"
    assert (scene.root / "big.bin").read_bytes()[:1] == b"y"


def test_files_beyond_the_entry_limit_do_not_count_as_new(scene: Scene) -> None:
    for n in range(20):
        (scene.root / f"f{n:02}").write_text("old")
    with command(scene, SnapshotLimits(entries=10)) as notes:
        (scene.root / "f03").write_text("new")
        (scene.root / "a-new-one").write_text("new")
        (scene.root / "f19").write_text("new")
    assert "more than 10 entries" in notes[0]
    scene.undo()
    assert scene.text("f03") == "old"
    assert scene.text("f19") == "new"
    assert len(list(scene.root.iterdir())) == 21


def test_store_stays_within_its_limit(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "workspace", tmp_path / "undo", limit_bytes=100_000)
    for round_ in range(8):
        with command(scene):
            for n in range(10):
                (scene.root / f"f{n}").write_bytes(os.urandom(4_000))
        stored = sum(p.stat().st_size for p in (scene.store / "blobs").rglob("*") if p.is_file())
        assert stored <= 100_000, round_
    before = folder_state(scene.root)
    with command(scene):
        (scene.root / "f1").write_bytes(b"new")
    scene.undo()
    assert folder_state(scene.root) == before


def test_folder_larger_than_the_store_is_stored_in_part(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "workspace", tmp_path / "undo", limit_bytes=50_000)
    for n in range(30):
        (scene.root / f"f{n:02}").write_bytes(os.urandom(4_000))
    with command(scene) as notes:
        for n in range(30):
            (scene.root / f"f{n:02}").write_bytes(b"new")
    assert "cannot be undone" in notes[0]
    stored = sum(p.stat().st_size for p in (scene.store / "blobs").rglob("*") if p.is_file())
    assert stored <= 50_000


def test_changes_of_another_conversation_are_not_attributed_to_the_command(scene: Scene) -> None:
    (scene.root / "a.txt").write_text("one")
    with command(scene):
        (scene.root / "a.txt").write_text("two")
        scene.write("theirs.txt", "theirs", session="s2")
    scene.undo()
    assert (scene.text("a.txt"), scene.text("theirs.txt")) == ("one", "theirs")


def test_concurrent_commands_are_undone_only_by_force(scene: Scene) -> None:
    (scene.root / "a.txt").write_text("one")
    with command(scene), scene.context("exec", "s2").changes.background_command():
        (scene.root / "a.txt").write_text("two")
    assert scene.undo().paths("kept") == [scene.root / "a.txt"]
    assert scene.text("a.txt") == "two"
    scene.undo(force=True)
    assert scene.text("a.txt") == "one"


def test_background_command_reports_that_it_is_not_recorded(scene: Scene) -> None:
    result = scene.call("exec", command="touch x", background=True)
    assert "in the background cannot be undone" in (result.for_user or "")
