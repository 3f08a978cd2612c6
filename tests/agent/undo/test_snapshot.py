"""Snapshots of a folder."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.undo.blob_store import BlobStore
from agent.undo.snapshot import SnapshotWalker

_DELETE = """
import json, sys
from pathlib import Path
from agent.security.shell.deletions import DeletionTargets
from agent.undo.blob_store import BlobStore
from agent.undo.coverage import UndoCoverage
from agent.undo.snapshot import SnapshotWalker

root = Path(sys.argv[1])
blobs = BlobStore(root.parent / "store")
tree = SnapshotWalker(root, blobs).tree({})
targets = DeletionTargets((root / "a.txt", root / "closed", root / "z.txt"), ())
deletion = UndoCoverage(root, blobs).deletion(targets, confined=True)
print(json.dumps([sorted(tree.entries), deletion.lost, deletion.restorable]))
"""


def without_superuser_rights(*command: str) -> list[str]:
    """Return a command for which file modes count, even when run as root."""
    if os.geteuid():
        return list(command)
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]


@pytest.fixture
def deep_tree(tmp_path: Path) -> Iterator[Path]:
    """1,500 nested folders."""
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


def test_too_deep_folder_counts_as_unreadable(deep_tree: Path, tmp_path: Path) -> None:
    (deep_tree / "a.txt").write_text("here")
    tree = SnapshotWalker(deep_tree, BlobStore(tmp_path / "store")).tree({})
    assert "a.txt" in tree.entries
    (closed,) = tree.unreadable_folders
    assert closed.startswith("deep/deep/")


def test_folder_without_search_permission_is_unreadable(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "closed").mkdir(parents=True)
    for name in ("a.txt", "closed/inner.txt", "z.txt"):
        (root / name).write_text("here")
    (root / "closed").chmod(0o444)
    command = without_superuser_rights(sys.executable, "-c", _DELETE, str(root))
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    finally:
        (root / "closed").chmod(0o755)
    entries, lost, restorable = json.loads(output)
    assert entries == ["a.txt", "closed", "z.txt"]
    assert lost == [["unreadable", ["closed/"]]]
    assert restorable == ["a.txt", "z.txt"]
