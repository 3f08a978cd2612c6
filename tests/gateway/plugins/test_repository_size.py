"""Rejection of repositories that unpack to far more than their size, before any checkout."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.plugins.errors import PluginError
from gateway.plugins.sources import fetch

pytestmark = pytest.mark.programs("git")


class Repository:
    """Bare repository made of handwritten objects."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._git("init", "-q", "--bare")

    def _git(self, *words: str, data: bytes = b"") -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
        done = subprocess.run(command, cwd=self.folder, check=True, input=data, capture_output=True)
        return done.stdout.decode().strip()

    def blob(self, data: bytes) -> str:
        return self._git("hash-object", "-w", "--stdin", data=data)

    def tree(self, entries: Sequence[str]) -> str:
        return self._git("mktree", data="\n".join(entries).encode())

    def commit(self, tree: str) -> None:
        self._git("update-ref", "HEAD", self._git("commit-tree", tree, "-m", "one"))

    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


def fetched(repository: Repository, target: Path, **more: str) -> Path:
    return fetch({"source": "url", "url": repository.folder.as_uri(), **more}, target)


def files_below(folder: Path) -> list[str]:
    """Return the files outside of `.git`."""
    return sorted(
        os.path.relpath(os.path.join(above, name), folder)
        for above, folders, names in os.walk(folder)
        if ".git" not in folders or not folders.remove(".git")
        for name in names
    )


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def test_blob_under_many_names_is_counted_each_time(repository: Repository, tmp_path: Path) -> None:
    blob = repository.blob(bytes(2**20))
    names = repository.tree([f"100644 blob {blob}\t{n}" for n in range(100)])
    repository.commit(repository.tree([f"040000 tree {names}\t{n}" for n in range(30)]))
    assert repository.size_bytes() < 100_000
    with pytest.raises(PluginError, match="the repository is too large"):
        fetched(repository, tmp_path / "target")
    assert files_below(tmp_path / "target") == []


@pytest.mark.parametrize("has_files", [False, True])
def test_exponential_trees_are_rejected(
    has_files: bool, repository: Repository, tmp_path: Path
) -> None:
    blob = repository.blob(b"")
    tree = repository.tree([f"100644 blob {blob}\ta"] if has_files else [])
    for _ in range(10):
        tree = repository.tree([f"040000 tree {tree}\t{n}" for n in range(10)])
    repository.commit(tree)
    with pytest.raises(PluginError, match="too large"):
        fetched(repository, tmp_path / "target")


def test_files_are_checked_out_as_stored(repository: Repository, tmp_path: Path) -> None:
    attributes = repository.blob(b"* text eol=crlf ident\n*.txt working-tree-encoding=UTF-32\n")
    words = repository.blob(b"$Id$\n")
    entries = [f"100644 blob {words}\ta.txt", f"100644 blob {attributes}\t.gitattributes"]
    repository.commit(repository.tree(entries))
    target = fetched(repository, tmp_path / "target")
    assert (target / "a.txt").read_bytes() == b"$Id$\n"


@pytest.mark.parametrize("path", ["missing", "../outside"])
def test_missing_folder_is_rejected(repository: Repository, tmp_path: Path, path: str) -> None:
    repository.commit(repository.tree([f"100644 blob {repository.blob(b'hi')}\ta"]))
    with pytest.raises(PluginError):
        fetched(repository, tmp_path / "target", path=path)


def test_only_the_named_folder_is_measured(repository: Repository, tmp_path: Path) -> None:
    large = repository.tree([f"100644 blob {repository.blob(bytes(65 * 2**20))}\tlarge"])
    small = repository.tree([f"100644 blob {repository.blob(b'hi')}\tsmall"])
    entries = [f"040000 tree {large}\tlarge", f"040000 tree {small}\t*"]
    repository.commit(repository.tree(entries))
    assert files_below(fetched(repository, tmp_path / "a", path="./*/")) == ["small"]
    with pytest.raises(PluginError, match="the repository is too large"):
        fetched(repository, tmp_path / "b", path="large")
