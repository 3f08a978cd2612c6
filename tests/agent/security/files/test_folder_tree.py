"""Walk, removal and copy of folders nested deeper than the limit on path lengths."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.security.files.folder_tree import (
    FolderCursor,
    TreeWalk,
    copy_tree,
    remove_folder,
    remove_tree,
    scratch_folder,
)
from agent.security.files.safe_open import LISTED
from tests.deep_folders import LEVELS, NAME, build, deep_folders, depth_of, remove

WIDE = 60


@contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    fd = os.open(folder, LISTED)
    try:
        yield fd
    finally:
        os.close(fd)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_walk_is_sorted_and_visits_folders_before_and_after_their_content(tmp_path: Path) -> None:
    for path in ("b/x.txt", "b/c/y.txt", "a.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    (tmp_path / "z").symlink_to("b")
    with open_folder(tmp_path) as root:
        results = [(member.path, member.is_done) for member in TreeWalk(root)]
    assert results == [
        *(("a.txt", False), ("b", False), ("b/c", False), ("b/c/y.txt", False)),
        *(("b/c", True), ("b/x.txt", False), ("b", True), ("z", False)),
    ]


def test_walk_of_a_deep_tree_needs_few_descriptors(tmp_path: Path) -> None:
    with deep_folders(tmp_path / "t"):
        # This name sorts after the deep tree, so the walk finds it on the way up.
        (tmp_path / "t" / "z.txt").write_text("x")
        before = open_descriptors()
        most = 0
        files = []
        with open_folder(tmp_path / "t") as root:
            walk = TreeWalk(root)
            for member in walk:
                if member.is_file:
                    files.append((member.name, len(member.above)))
                    most = max(most, open_descriptors())
        assert files == [("first.txt", 0), ("deep.txt", LEVELS), ("z.txt", 0)]
        assert walk.left_out == 0
        assert most - before < WIDE
        assert open_descriptors() == before


def test_removal_restores_permissions_and_follows_no_link(tmp_path: Path) -> None:
    """Run as an ordinary user, because root may do anything."""
    outside = tmp_path / "outside"
    (outside / "kept").mkdir(parents=True)
    (outside / "kept").chmod(0o700)
    folder = tmp_path / "t"
    (folder / "closed" / "inner").mkdir(parents=True)
    (folder / "closed" / "inner" / "a.txt").write_text("x")
    (folder / "link").symlink_to(outside)
    for closed in (folder / "closed" / "inner", folder / "closed", folder):
        closed.chmod(0)
    code = """
import os, sys
sys.path.insert(0, sys.argv[2])
from agent.security.files.safe_open import refuse_kernel_view
from agent.security.files.folder_tree import remove_tree
above = os.open(sys.argv[1], os.O_RDONLY)
refuse_kernel_view(above)  # what it imports may be root's only
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
sys.exit(not remove_tree("t", above))
"""
    if os.geteuid() == 0:
        inner = ("closed", "closed/inner", "closed/inner/a.txt")
        for path in (tmp_path, folder, *(folder / name for name in inner)):
            os.chown(path, 65534, 65534)
    root = str(Path(__file__).parents[4])
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), root], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert not folder.exists()
    assert (outside / "kept").is_dir()


def test_failed_removal_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path)
    with open_folder(tmp_path) as above:
        assert not remove_tree("file", above)
        assert not remove_tree("link", above)
    assert (tmp_path / "file").exists()


def test_deep_tree_is_copied_without_links(tmp_path: Path) -> None:
    with deep_folders(tmp_path / "t", tmp_path / "copy"):
        (tmp_path / "t" / "link").symlink_to("/etc")
        os.utime(tmp_path / "t" / "first.txt", (1, 2))
        (tmp_path / "t" / "first.txt").chmod(0o750)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_descriptors() + WIDE, before[1]))
        try:
            assert copy_tree(tmp_path / "t", tmp_path / "copy" / "made") == 1
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        made = tmp_path / "copy" / "made"
        assert depth_of(made) == LEVELS
        assert sorted(os.listdir(made)) == ["first.txt", NAME]
        info = (made / "first.txt").stat()
        assert (info.st_mode & 0o777, info.st_mtime) == (0o750, 2)


def test_walk_does_not_follow_a_moved_folder(tmp_path: Path) -> None:
    """Moving a folder during the walk must not redirect the walk."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    with deep_folders(inside, outside, levels=60, name="d"):
        (outside / "victim.txt").write_text("x")
        upper, middle, lower = (inside.joinpath(*["d"] * n) for n in (5, 10, 30))
        for folder in (inside, upper, middle, lower):
            (folder / "z.txt").write_text("x")
        seen = []
        with open_folder(inside) as root:
            walk = TreeWalk(root)
            for member in walk:
                if member.is_file:
                    seen.append((member.name, len(member.above)))
                if member.name == "deep.txt":
                    # The parents on the way up are different folders now.
                    lower.rename(outside / "lower")
                    middle.rename(outside / "middle")
        # The walk had opened the lower folder already; the middle one is lost and counted.
        assert seen == [
            *(("deep.txt", 60), ("z.txt", 30), ("z.txt", 5)),
            *(("first.txt", 0), ("z.txt", 0)),
        ]
        assert walk.left_out > 0


def test_moved_parent_folder_is_an_error(tmp_path: Path) -> None:
    with (
        deep_folders(tmp_path / "t", tmp_path / "other", levels=60, name="d"),
        open_folder(tmp_path / "t") as root,
        FolderCursor(root) as place,
    ):
        place.go(["d"] * 60)
        for level in (30, 10):
            moved = tmp_path.joinpath("t", *["d"] * level)
            moved.rename(tmp_path / "other" / f"moved{level}")
        with pytest.raises(OSError, match="moved away"):
            place.back(20)
        assert place.names == ["d"] * 9


def test_scratch_folder_of_any_depth_is_removed(tmp_path: Path) -> None:
    with scratch_folder("kore-", tmp_path) as made:
        assert made.stat().st_mode & 0o777 == 0o700
        build(made)
    try:
        assert list(tmp_path.iterdir()) == []
    finally:
        remove(made)
    assert remove_folder(made), "nothing is left of what is not there"
