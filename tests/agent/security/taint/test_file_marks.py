"""Taint marks of files with untrusted text."""

import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

import pytest

from agent.security.taint.command_marks import CLOCK_PRECISION_S, TaintingCommand, mark_changed
from agent.security.taint.file_marks import (
    is_marked,
    is_name_marked,
    is_unseen,
    mark_tainted,
    unmark,
)
from agent.security.taint.marked_write import append_marked, keep_mark, write_marked
from agent.security.taint.taint import NOTHING, UNTRUSTED
from agent.types import Taint


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "note.md"
    path.write_text("x")
    mark_tainted(path, tmp_path)
    if not is_marked(path):
        pytest.skip("this file system keeps no extended attributes")
    return path


def test_mark_stays_with_a_moved_file(file: Path) -> None:
    assert is_marked(file.rename(file.with_name("other.md")))


def test_workspace_is_marked_too(file: Path) -> None:
    assert is_marked(file.parent)


def test_file_written_under_taint_is_marked(file: Path) -> None:
    fresh = file.with_name("fresh.md")
    write_marked(fresh, b"y", file.parent, UNTRUSTED)
    assert is_marked(fresh)


def test_clean_write_keeps_an_old_mark_and_adds_none(file: Path) -> None:
    write_marked(file, b"new inode", file.parent, NOTHING)
    assert is_marked(file)
    clean = file.with_name("clean.md")
    write_marked(clean, b"y", file.parent, NOTHING)
    assert not is_marked(clean)


def test_write_by_an_editor_keeps_the_mark(file: Path) -> None:
    with keep_mark(file, file.parent):
        file.unlink()
        file.write_text("new inode")
    assert is_marked(file)


def test_command_output_stays_unseen_after_a_later_write(file: Path) -> None:
    assert not is_unseen(file)
    mark_changed(file.parent, file.lstat().st_ctime)
    assert is_unseen(file)
    assert not is_unseen(file.parent)
    for taint in (NOTHING, UNTRUSTED):
        write_marked(file, b"new inode", file.parent, taint)
        assert is_unseen(file)


@pytest.mark.usefixtures("file")
def test_files_changed_by_a_command_are_marked(tmp_path: Path) -> None:
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
    """Return a file system time later than the file's last change."""
    probe = path.with_name("probe")
    while True:
        probe.write_text("x")
        if (moment := probe.lstat().st_ctime) > path.lstat().st_ctime:
            return moment


@contextmanager
def deep_tree(folder: Path, height: int) -> Iterator[None]:
    """Create folders nested deeper than any path can name.

    They are removed at the end, because the cleanup of pytest cannot remove them.
    """
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
def test_every_later_change_is_marked_after_an_incomplete_scan(tmp_path: Path, hide: str) -> None:
    if hide == "closed" and os.geteuid() == 0:
        pytest.skip("nothing is closed to root")
    workspace = tmp_path / "workspace"
    (workspace / "box").mkdir(parents=True)
    old = workspace / "old.md"
    old.write_text("mine")
    # Changes within the second before the start count as well.
    moment = old.lstat().st_ctime + CLOCK_PRECISION_S
    while later_than(old) <= moment:
        pass
    changing = TaintingCommand(workspace)
    changing.begin()
    page = workspace / "box" / "page.md"
    page.write_text("theirs")
    if hide == "deep":
        with deep_tree(workspace, 250):
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
def test_changes_by_a_command_are_marked_during_the_run_and_after_a_kill(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    script = (
        "import os, pathlib, sys\n"
        "from agent.security.taint.command_marks import TaintingCommand\n"
        "workspace = pathlib.Path(sys.argv[1])\n"
        "TaintingCommand(workspace).begin()\n"
        "(workspace / 'page.md').write_text('theirs')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, workspace], check=False)
    assert done.returncode == -9
    assert is_marked(workspace / "page.md")
    # The next command does not remove the mark.
    changing = TaintingCommand(workspace)
    changing.begin()
    changing.end()
    unmarked = workspace / "page.md"
    assert is_marked(unmarked)
    unmarked.rename(workspace / "other.md")
    assert is_marked(workspace / "other.md")


@pytest.mark.usefixtures("file")
def test_changes_by_another_process_are_marked_until_it_ends(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    script = (
        "import pathlib, sys\n"
        "from agent.security.taint.command_marks import TaintingCommand\n"
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
        # This command runs within the other one and must not remove its marks.
        changing = TaintingCommand(workspace)
        changing.begin()
        changing.end()
        page = workspace / "page.md"
        page.write_text("theirs")
        assert is_marked(page)
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.readline() == "ended\n"
        # The marks are not permanent, because both commands were checked completely.
        later = workspace / "later.md"
        later.write_text("ours")
        assert not is_marked(later)
        other.stdin.close()


def test_too_many_processes_leave_a_permanent_mark(file: Path) -> None:
    for number in range(16):
        name = "user.kore.running" + (f".{number}" if number else "")
        os.setxattr(file.parent, name, f"{time.time():.6f} 1:2:3".encode())
    changing = TaintingCommand(file.parent)
    changing.begin()
    changing.end()
    assert "user.kore.since" in os.listxattr(file.parent)
    unmark(file.parent)
    assert os.listxattr(file.parent) == []


def test_fully_watched_command_does_not_mark_later_files(file: Path) -> None:
    changing = TaintingCommand(file.parent)
    changing.begin()
    fresh = file.with_name("fresh.md")
    fresh.write_text("theirs")
    changing.end()
    assert is_marked(fresh)
    later = file.with_name("later.md")
    later.write_text("mine")
    assert not is_marked(later)


def test_names_chosen_by_a_command_or_tool_are_marked(file: Path) -> None:
    workspace = file.parent
    changing = TaintingCommand(workspace)
    changing.begin()
    (workspace / "obey me").mkdir()
    changing.end()
    assert is_name_marked(workspace / "obey me")
    write_marked(workspace / "and me" / "x", b"", workspace, UNTRUSTED)
    assert is_name_marked(workspace / "and me")
    (workspace / "mine").mkdir()
    assert not is_name_marked(workspace / "mine")


def test_folder_around_a_workspace_has_its_marks(file: Path) -> None:
    inner = file.parent / "outer" / "inner"
    inner.mkdir(parents=True)
    (inner / "page").touch()
    mark_tainted(inner / "page", inner)
    assert is_marked(file.parent / "outer")


@pytest.mark.usefixtures("file")
def test_exposure_of_a_command_survives_a_killed_kore(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    before = workspace / "before.md"
    before.write_text("mine")
    os.utime(before, (0, 0))
    script = (
        "import os, pathlib, sys, time\n"
        "from agent.security.taint import command_marks, file_marks\n"
        "workspace = pathlib.Path(sys.argv[1])\n"
        "while time.time() < (workspace / 'before.md').lstat().st_ctime + 1.5: pass\n"
        "command_marks.TaintingCommand(workspace).start()\n"
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
    # The next command does not remove the mark.
    changing = TaintingCommand(workspace)
    changing.start()
    changing.end(is_exposed=False)
    assert is_unseen(page)
    assert not is_marked(before)


def test_unexposed_command_leaves_no_mark(file: Path) -> None:
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
def test_clock_set_back_hides_no_change(
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


def test_too_many_attributes_count_as_marked() -> None:
    # Only a file system in memory supports this number of attributes.
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


@pytest.mark.usefixtures("file")
def test_existing_link_or_fifo_is_not_marked(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    old = [workspace / "old link", workspace / "old fifo"]
    old[0].symlink_to("x")
    os.mkfifo(old[1])
    since = later_than(old[1])
    new = workspace / "new link"
    new.symlink_to("x")
    assert mark_changed(workspace, since)
    assert is_name_marked(new)
    assert not any(map(is_name_marked, old))
    unmark(workspace)
    assert not is_name_marked(new)


@pytest.mark.usefixtures("file")
def test_link_to_a_marked_file_is_marked(tmp_path: Path) -> None:
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to("note.md")
    (tmp_path / "folder").symlink_to(tmp_path)
    assert is_marked(tmp_path / "first")
    assert is_marked(tmp_path / "folder" / "first")
    assert not is_name_marked(tmp_path / "first")


@pytest.mark.usefixtures("file")
def test_marked_link_to_a_clean_file_is_marked(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "clean").mkdir(parents=True)
    clean = workspace / "clean" / "clean.md"
    clean.write_text("mine")
    since = later_than(clean)
    (workspace / "file").symlink_to(clean)
    (workspace / "folder").symlink_to("clean")
    mark_changed(workspace, since)
    assert is_unseen(workspace / "file")
    assert is_unseen(workspace / "folder" / "clean.md")
    assert not is_marked(clean)


@pytest.mark.usefixtures("file")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to another user")
def test_workspace_of_another_user_has_its_marks(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    (workspace / "deeper").mkdir(parents=True)
    page = workspace / "deeper" / "page.md"
    page.touch()
    for path in (workspace, workspace / "deeper", page):
        os.chown(path, 65534, 65534)
    mark_tainted(page, workspace)
    assert is_marked(page)
    assert is_marked(workspace)
    assert is_marked(workspace / "deeper")


def test_circular_links_end(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    assert not is_marked(tmp_path / "one")


@pytest.mark.usefixtures("file")
def test_trust_reaches_a_file_without_write_permission(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    page = workspace / "page.md"
    page.touch(0o444)
    mark_tainted(page, workspace)
    assert is_marked(page)
    assert stat.S_IMODE(page.lstat().st_mode) == 0o444
    unmark(workspace)
    assert not is_marked(page)


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize("write", [write_marked, append_marked])
def test_file_has_its_mark_before_its_content(
    tmp_path: Path, write: Callable[[Path, bytes, Path, frozenset[Taint]], None]
) -> None:
    """Another thread reads the file continuously while it is created and removed."""
    path, is_over = tmp_path / "fresh.md", Event()
    unmarked: list[str] = []

    def look() -> None:
        while not is_over.is_set():
            with suppress(FileNotFoundError), path.open("rb") as reader:
                if reader.read() and "user.kore.untrusted" not in os.listxattr(reader.fileno()):
                    unmarked.append("found")

    with ThreadPoolExecutor() as pool:
        looking = pool.submit(look)
        for _ in range(300):
            write(path, b"theirs", tmp_path, UNTRUSTED)
            path.unlink()
        is_over.set()
        looking.result()
    assert unmarked == []


@pytest.mark.usefixtures("file")
def test_mark_that_cannot_be_stored_counts_for_the_whole_workspace(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a file immutable")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    page = workspace / "page.md"
    page.write_text("theirs")
    try:
        if subprocess.run(["chattr", "+i", page], capture_output=True, check=False).returncode:
            pytest.skip("this file system knows no immutable files")
        changing = TaintingCommand(workspace)
        changing.begin()
        changing.end()
        assert is_unseen(page)
    finally:
        subprocess.run(["chattr", "-i", page], capture_output=True, check=False)
