"""Files that hold strangers' words are known as such later on."""

import os
from pathlib import Path

import pytest

from agent.security.marks import carried, is_marked, is_unseen, mark, mark_changed
from agent.security.taint import NOTHING, UNTRUSTED


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "note.md"
    path.write_text("x")
    mark(path, tmp_path)
    if not is_marked(path):
        pytest.skip("this file system keeps no extended attributes")
    return path


def test_a_mark_stays_with_a_file_that_is_moved(file: Path) -> None:
    assert is_marked(file.rename(file.with_name("other.md")))


def test_the_workspace_is_marked_too(file: Path) -> None:
    assert is_marked(file.parent)


def test_what_is_written_under_taint_is_marked(file: Path) -> None:
    fresh = file.with_name("fresh.md")
    with carried(fresh, file.parent, UNTRUSTED):
        fresh.write_text("y")
    assert is_marked(fresh)


def test_a_clean_write_keeps_an_old_mark_and_makes_none(file: Path) -> None:
    with carried(file, file.parent, NOTHING):
        file.unlink()
        file.write_text("new inode")
    assert is_marked(file)
    clean = file.with_name("clean.md")
    with carried(clean, file.parent, NOTHING):
        clean.write_text("y")
    assert not is_marked(clean)


def test_nobody_has_seen_what_a_command_wrote_and_a_later_write_hides_that_not(file: Path) -> None:
    assert not is_unseen(file)
    mark_changed(file.parent, file.lstat().st_ctime)
    assert is_unseen(file)
    assert not is_unseen(file.parent)
    for taint in (NOTHING, UNTRUSTED):
        with carried(file, file.parent, taint):
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
