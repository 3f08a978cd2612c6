"""Coverage of deletions by undo, file by file."""

import os
from pathlib import Path

import pytest

from agent.security.policy.base import Deletion
from agent.security.shell.deletions import DeletionTargets
from agent.undo.blob_store import BlobStore
from agent.undo.coverage import UndoCoverage
from agent.undo.reversal import BuildProducts
from agent.undo.snapshot import SnapshotLimits


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git" / "objects").mkdir(parents=True)
    (root / "src" / "build").mkdir(parents=True)
    (root / "node_modules").mkdir()
    (root / ".gitignore").write_text("*.env\nbuild/\n")
    (root / "secret.env").write_text("KEY=1\n")
    (root / "src" / "a.py").write_text("a = 1\n")
    (root / "src" / "build" / "a.o").write_bytes(b"o")
    (root / "src" / "large.bin").write_bytes(b"x" * 2_000_001)
    (root / "notes.txt").write_text("notes\n")
    os.link(root / "notes.txt", root / "second.txt")
    return root


def deletion(
    root: Path,
    *names: str,
    search: tuple[str, ...] = (),
    confined: bool = True,
    limits: SnapshotLimits | None = None,
) -> Deletion:
    blobs = BlobStore(root.parent / "undo")
    targets = DeletionTargets(
        tuple(root / name for name in names), tuple(root / name for name in search)
    )
    return UndoCoverage(root, blobs, [root / "private"], limits).deletion(
        targets, confined=confined
    )


def test_each_file_is_named_with_the_reason(root: Path) -> None:
    coverage = deletion(
        root, ".git", "secret.env", "src", "node_modules", "notes.txt", ".gitignore"
    )
    assert dict(coverage.lost) == {
        "git": (".git/",),
        "ignored": ("secret.env", "src/build/", "node_modules/"),
        "large": ("src/large.bin",),
        "unreadable": ("notes.txt",),
    }
    assert coverage.restorable == ("src/", ".gitignore")


def test_restorable_deletion_is_not_final(root: Path) -> None:
    coverage = deletion(root, "src/a.py", "missing.txt")
    assert coverage == Deletion(restorable=("src/a.py",))
    assert not coverage.is_final


def test_files_in_an_ignored_folder(root: Path) -> None:
    assert dict(deletion(root, "src/build/a.o").lost) == {"ignored": ("src/build/a.o",)}
    assert dict(deletion(root, ".git/objects").lost) == {"git": (".git/objects/",)}


def test_closed_files(root: Path) -> None:
    (root / "private").write_text("x")
    assert dict(deletion(root, "private").lost) == {"closed": ("private",)}


def test_limits_of_the_folder(root: Path) -> None:
    by_count = deletion(root, "src/a.py", limits=SnapshotLimits(entries=3))
    by_size = deletion(root, "src/a.py", limits=SnapshotLimits(tree_bytes=5))
    assert dict(by_count.lost) == {"limit": ("src/a.py",)}
    assert dict(by_size.lost) == {"limit": ("src/a.py",)}


def test_deletion_of_the_root_folder(root: Path) -> None:
    """A confined `rm -rf /` deletes the whole folder and nothing else."""
    coverage = deletion(root, "/")
    assert coverage.unseen == ("/",)
    assert {cause for cause, _ in coverage.lost} == {"git", "ignored", "large", "unreadable"}


def test_files_outside_are_lost_without_a_sandbox(root: Path) -> None:
    outside = root.parent / "other.txt"
    assert deletion(root, str(outside)) == Deletion(unseen=(str(outside),))
    assert dict(deletion(root, str(outside), confined=False).lost) == {"outside": (str(outside),)}


def test_files_chosen_by_the_program(root: Path) -> None:
    """Repositories are protected in this case; files that undo does not cover are named."""
    coverage = deletion(root, search=(".",))
    assert coverage.is_chosen_later
    assert coverage.is_final
    assert ".git/" not in coverage.possible
    assert "secret.env" in coverage.possible
    assert not deletion(root, search=("src/a.py", "missing")).is_final


def test_nothing_is_covered_without_a_log(root: Path) -> None:
    targets = DeletionTargets((root / "src" / "a.py",), ())
    coverage = UndoCoverage(root, None).deletion(targets, confined=True)
    assert dict(coverage.lost) == {"unrecorded": ("src/a.py",)}


def test_long_lists_are_cut(root: Path) -> None:
    names = [f"{n}.env" for n in range(12)]
    for name in names:
        (root / name).write_text("x")
    lost = dict(deletion(root, *names).lost)["ignored"]
    assert lost == (*names[:10], "…")


def test_impossible_names_are_listed(root: Path) -> None:
    name = f"/etc/{'a' * 300}"
    assert dict(deletion(root, name, confined=False).lost) == {"outside": (name,)}
    assert deletion(root, "b" * 300) == Deletion()
    assert root / ("b" * 300) not in BuildProducts(root)
