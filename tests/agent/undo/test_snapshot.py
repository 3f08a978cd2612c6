"""A folder at one moment."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.undo.blob_store import BlobStore
from agent.undo.snapshot import SnapshotWalker


@pytest.fixture
def deep_tree(tmp_path: Path) -> Iterator[Path]:
    """1,500 folders, one in the other."""
    root = tmp_path / "root"
    root.mkdir()
    innermost = os.open(root, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("deep", dir_fd=innermost)
        below = os.open("deep", os.O_RDONLY, dir_fd=innermost)
        os.close(innermost)
        innermost = below
    os.close(innermost)
    yield root
    subprocess.run(["rm", "-rf", str(root)], check=True)


def test_what_lies_too_deep_counts_as_not_listed(deep_tree: Path, tmp_path: Path) -> None:
    (deep_tree / "a.txt").write_text("here")
    tree = SnapshotWalker(deep_tree, BlobStore(tmp_path / "store")).tree({})
    assert "a.txt" in tree.entries
    (closed,) = tree.unreadable_folders
    assert closed.startswith("deep/deep/")
