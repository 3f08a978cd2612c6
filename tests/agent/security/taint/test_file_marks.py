"""Files that hold strangers' words are known as such later on."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.security.files.write_clock import CLOCK_S
from agent.security.taint.file_marks import (
    TaintingCommand,
    is_marked,
    is_name_marked,
    is_unseen,
    mark_changed,
    mark_tainted,
    taint_of_file,
    unmark,
)
from agent.security.taint.taint import NOTHING, UNTRUSTED


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "note.md"
    path.write_text("x")
    mark_tainted(path, tmp_path)
    if not is_marked(path):
        pytest.skip("this file system keeps no extended attributes")
    return path


def test_a_mark_stays_with_a_file_that_is_moved(file: Path) -> None:
    assert is_marked(file.rename(file.with_name("other.md")))


def test_the_workspace_is_marked_too(file: Path) -> None:
    assert is_marked(file.parent)


def test_what_is_written_under_taint_is_marked(file: Path) -> None:
    fresh = file.with_name("fresh.md")
    with taint_of_file(fresh, file.parent, UNTRUSTED):
        fresh.write_text("y")
    assert is_marked(fresh)


def test_a_clean_write_keeps_an_old_mark_and_makes_none(file: Path) -> None:
    with taint_of_file(file, file.parent, NOTHING):
        file.unlink()
        file.write_text("new inode")
    assert is_marked(file)
    clean = file.with_name("clean.md")
    with taint_of_file(clean, file.parent, NOTHING):
        clean.write_text("y")
    assert not is_marked(clean)


def test_nobody_has_seen_what_a_command_wrote_and_a_later_write_hides_that_not(file: Path) -> None:
    assert not is_unseen(file)
    mark_changed(file.parent, file.lstat().st_ctime)
    assert is_unseen(file)
    assert not is_unseen(file.parent)
    for taint in (NOTHING, UNTRUSTED):
        with taint_of_file(file, file.parent, taint):
            file.unlink()
            file.write_text("new inode")
        assert is_unseen(file)


@pytest.mark.usefixtures("file")
def test_files_that_a_command_changed_are_marked(tmp_path: Path) -> None:
    workspace = tmp_path / "deep"
    (workspace / "deeper").mkdir(parents=True)
    page = workspace / "deeper" / "page"
    page.write_text("x")
    (workspace / "link").symlink_to(page)
    mark_changed(workspace, page.lstat().st_ctime + 1)
    assert not is_marked(page)
    assert not is_marked(workspace)
    os.utime(page, (0, 0))
    mark_changed(workspace, page.lstat().st_ctime)
    assert is_marked(page)
    assert is_marked(workspace)


def later_than(path: Path) -> float:
    """A moment that the clock of the file system tells from the file's last change."""
    probe = path.with_name("probe")
    while True:
        probe.write_text("x")
        if (moment := probe.lstat().st_ctime) > path.lstat().st_ctime:
            return moment


@contextmanager
def deep_tree(folder: Path, height: int) -> Iterator[None]:
    """Folders in each other, deeper than any path can name; gone in the end, which pytest's own
    way of tidying up does not manage."""
    at = os.open(folder, os.O_DIRECTORY)
    for _ in range(height):
        os.mkdir("d", dir_fd=at)
        inner = os.open("d", os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(os.open("deep.txt", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
    try:
        yield
    finally:
        subprocess.run(["rm", "-rf", folder / "d"], check=True)


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("hide", ["deep", "closed"])
def test_where_not_all_can_be_looked_at_every_later_change_counts(
    tmp_path: Path, hide: str
) -> None:
    if hide == "closed" and os.geteuid() == 0:
        pytest.skip("nothing is closed to root")
    workspace = tmp_path / "workspace"
    (workspace / "box").mkdir(parents=True)
    old = workspace / "old.md"
    old.write_text("mine")
    # It counts from a second back.
    moment = old.lstat().st_ctime + CLOCK_S
    while later_than(old) <= moment:
        pass
    changing = TaintingCommand(workspace)
    changing.begin()
    page = workspace / "box" / "page.md"
    page.write_text("theirs")
    if hide == "deep":
        with deep_tree(workspace, 1_200):
            changing.end()
    else:
        (workspace / "box").chmod(0)
        changing.end()
        (workspace / "box").chmod(0o700)
    assert is_marked(page)
    washed = page.rename(workspace / "washed.md")
    copied = workspace / "copied.md"
    copied.write_bytes(washed.read_bytes())
    assert is_marked(washed)
    assert is_marked(copied)
    assert not is_marked(old)
    unmark(workspace)
    assert not any(map(is_marked, (washed, copied, workspace)))


@pytest.mark.usefixtures("file")
def test_what_a_command_changes_counts_while_it_runs_and_after_kore_was_killed(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    script = (
        "import os, pathlib, sys\n"
        "from agent.security.taint.file_marks import TaintingCommand\n"
        "workspace = pathlib.Path(sys.argv[1])\n"
        "TaintingCommand(workspace).begin()\n"
        "(workspace / 'page.md').write_text('theirs')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, workspace], check=False)
    assert done.returncode == -9
    assert is_marked(workspace / "page.md")
    # Neither does the next command take it back.
    changing = TaintingCommand(workspace)
    changing.begin()
    changing.end()
    unmarked = workspace / "page.md"
    assert is_marked(unmarked)
    unmarked.rename(workspace / "other.md")
    assert is_marked(workspace / "other.md")


@pytest.mark.usefixtures("file")
def test_what_another_process_does_in_the_folder_counts_until_it_has_ended(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    script = (
        "import pathlib, sys\n"
        "from agent.security.taint.file_marks import TaintingCommand\n"
        "command = TaintingCommand(pathlib.Path(sys.argv[1]))\n"
        "command.begin()\n"
        "print('begun', flush=True)\n"
        "sys.stdin.readline()\n"
        "command.end()\n"
        "print('ended', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, workspace],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "begun\n"
        # This one begins and ends within the other's: it takes nothing back that is the other's.
        changing = TaintingCommand(workspace)
        changing.begin()
        changing.end()
        page = workspace / "page.md"
        page.write_text("theirs")
        assert is_marked(page)
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.readline() == "ended\n"
        # Nor does it count for good, since both were looked after whole.
        later = workspace / "later.md"
        later.write_text("ours")
        assert not is_marked(later)
        other.stdin.close()


def test_more_processes_than_can_be_told_apart_count_for_good(file: Path) -> None:
    for number in range(16):
        name = "user.kore.running" + (f".{number}" if number else "")
        os.setxattr(file.parent, name, f"{time.time():.6f} 1:2:3".encode())
    changing = TaintingCommand(file.parent)
    changing.begin()
    changing.end()
    assert "user.kore.since" in os.listxattr(file.parent)
    unmark(file.parent)
    assert os.listxattr(file.parent) == []


def test_a_command_that_was_looked_after_whole_leaves_later_files_alone(file: Path) -> None:
    changing = TaintingCommand(file.parent)
    changing.begin()
    fresh = file.with_name("fresh.md")
    fresh.write_text("theirs")
    changing.end()
    assert is_marked(fresh)
    later = file.with_name("later.md")
    later.write_text("mine")
    assert not is_marked(later)


def test_names_that_a_command_or_a_tool_has_chosen_are_marked(file: Path) -> None:
    workspace = file.parent
    changing = TaintingCommand(workspace)
    changing.begin()
    (workspace / "obey me").mkdir()
    changing.end()
    assert is_name_marked(workspace / "obey me", is_folder=True)
    with taint_of_file(workspace / "and me" / "x", workspace, UNTRUSTED):
        (workspace / "and me").mkdir()
        (workspace / "and me" / "x").touch()
    assert is_name_marked(workspace / "and me", is_folder=True)
    (workspace / "mine").mkdir()
    assert not is_name_marked(workspace / "mine", is_folder=True)


def test_a_folder_around_a_workspace_knows_of_its_marks(file: Path) -> None:
    inner = file.parent / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "page").touch()
    mark_tainted(inner / "page", inner)
    assert is_marked(file.parent / "outer")


@pytest.mark.usefixtures("file")
def test_a_command_that_was_told_strangers_words_counts_after_kore_was_killed(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    before = workspace / "before.md"
    before.write_text("mine")
    os.utime(before, (0, 0))
    script = (
        "import os, pathlib, sys, time\n"
        "from agent.security.taint import file_marks\n"
        "workspace = pathlib.Path(sys.argv[1])\n"
        "while time.time() < (workspace / 'before.md').lstat().st_ctime + 1.5: pass\n"
        "file_marks.TaintingCommand(workspace).start()\n"
        "(workspace / 'page.md').write_text('theirs')\n"
        "if sys.argv[2] == 'told': file_marks.mark_tainted(workspace, workspace)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    page = workspace / "page.md"
    for told in ("clean", "told"):
        done = subprocess.run([sys.executable, "-c", script, workspace, told], check=False)
        assert done.returncode == -9
        assert is_marked(page) is (told == "told")
    assert not is_marked(before)
    # The next command does not take it back.
    changing = TaintingCommand(workspace)
    changing.start()
    changing.end(is_exposed=False)
    assert is_unseen(page)
    assert not is_marked(before)


def test_a_command_that_heard_nothing_leaves_nothing(file: Path) -> None:
    workspace = file.parent / "workspace"
    workspace.mkdir()
    changing = TaintingCommand(workspace)
    changing.start()
    fresh = workspace / "fresh.md"
    fresh.write_text("mine")
    changing.end(is_exposed=False)
    mark_tainted(workspace, workspace)
    assert not is_marked(fresh)
    assert os.listxattr(workspace) == ["user.kore.untrusted"]


@pytest.mark.parametrize("when", ["while", "after"])
def test_a_clock_that_is_set_back_hides_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    workspace = file.parent / "workspace"
    workspace.mkdir()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600)
    changing = TaintingCommand(workspace)
    changing.start()
    changing.begin()
    monkeypatch.undo()
    fresh = workspace / "fresh.md"
    fresh.write_text("theirs")
    if when == "after":
        changing.end()
    assert is_marked(fresh)


def test_attributes_too_many_to_list_hide_nothing() -> None:
    # Only a file system in memory takes so many.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        workspace = Path(folder, "workspace")
        workspace.mkdir()
        changing = TaintingCommand(workspace)
        changing.start()
        changing.begin()
        fresh = workspace / "fresh.md"
        fresh.write_text("theirs")
        if not is_marked(fresh):
            pytest.skip("this file system keeps no extended attributes")
        for n in range(400):
            os.setxattr(workspace, f"user.{n:0200}", b"")
        with pytest.raises(OSError, match="too long"):
            os.listxattr(workspace)
        assert is_marked(fresh)
