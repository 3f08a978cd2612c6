"""Changes to review, from real repositories."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import ConfigError, KoreError
from gateway.cli.verbs.review.changes import parse_diff, read_changes
from gateway.cli.verbs.review.repository import GitReader, git_reader
from tests.gateway.cli.verbs.review.repositories import commit, git


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    commit(folder, a__py="".join(f"line {n}\n" for n in range(1, 31)), b__py="b\n")
    return folder


@pytest.fixture
def reader(folder: Path) -> Iterator[GitReader]:
    with git_reader(folder) as reader:
        yield reader


def head(reader: GitReader) -> str:
    commit = reader.commit("HEAD")
    assert commit is not None
    return commit


def test_lines_of_the_diff_are_known(folder: Path) -> None:
    lines = (folder / "a.py").read_text().splitlines()
    lines[9:11] = ["new", "lines", "here"]
    base = git(folder, "rev-parse", "HEAD")
    commit(folder, a__py="\n".join(lines) + "\n++ odd\n-- odd\r\n")
    with git_reader(folder) as reader:
        (file,) = read_changes(reader, base, head(reader)).files
    assert file.path == "a.py"
    assert [line for line, old in file.lines.items() if old is None] == [10, 11, 12, 32, 33]
    assert file.lines[13] == 12
    assert 20 not in file.lines


def test_uncommitted_changes_contain_new_files_and_leave_the_index_alone(
    folder: Path, reader: GitReader
) -> None:
    (folder / "a.py").write_text("short\n")
    (folder / "new [x].py").write_text("new\n")
    (folder / "ignored.log").write_text("noise\n")
    (folder / ".gitignore").write_text("*.log\n")
    inner = folder / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    before = (folder / ".git" / "index").read_bytes()
    changes = read_changes(reader, head(reader), None)
    assert {file.path for file in changes.files} == {".gitignore", "a.py", "new [x].py"}
    assert (folder / ".git" / "index").read_bytes() == before
    assert git(folder, "count-objects") == "4 objects, 16 kilobytes"


def test_new_files_in_the_global_ignore_list_are_left_out(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings"
    (settings / "git").mkdir(parents=True)
    (settings / "git" / "ignore").write_text(".env.local\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(settings))
    (folder / ".git" / "info" / "exclude").write_text("notes.txt\n")
    for name in (".env.local", "notes.txt", "new.py"):
        (folder / name).write_text("text\n")
    with git_reader(folder) as reader:
        changes = read_changes(reader, head(reader), None)
    assert [file.path for file in changes.files] == ["new.py"]


def test_git_that_is_killed_is_an_error(folder: Path, reader: GitReader, tmp_path: Path) -> None:
    program = tmp_path / "killed"
    program.write_text("#!/bin/sh\necho part\nkill -9 $$\n")
    program.chmod(0o755)
    with pytest.raises(KoreError, match="Killed"):
        replace(reader, program=str(program)).diff("HEAD", "HEAD")


def test_renamed_removed_and_binary_files(folder: Path) -> None:
    base = git(folder, "rev-parse", "HEAD")
    git(folder, "mv", "a.py", "c d.py")
    git(folder, "rm", "-q", "b.py")
    (folder / "picture.bin").write_bytes(bytes(range(256)))
    commit(folder)
    with git_reader(folder) as reader:
        files = {file.path: file for file in read_changes(reader, base, head(reader)).files}
    assert set(files) == {"b.py", "c d.py", "picture.bin"}
    assert files["c d.py"].old_path == "a.py"
    assert files["picture.bin"].lines == {}


def test_long_diff_leaves_out_whole_files(folder: Path, reader: GitReader) -> None:
    (folder / "a.py").write_text("x\n" * 1000)
    (folder / "b.py").write_text("y\n")
    changes = read_changes(reader, head(reader), None, limit_chars=500)
    assert [file.path for file in changes.files] == ["b.py"]
    assert changes.left_out == ("a.py",)


def test_lines_in_a_file_cannot_pretend_to_be_another_file() -> None:
    text = (
        "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1,3 @@\n-old\n+diff --git a/y b/y\n"
        "+++ b/y\n+@@ -1 +1 @@\n"
    )
    (file,) = parse_diff(text.encode())
    assert file.path == "x"
    assert file.lines == {1: None, 2: None, 3: None}


def test_programs_of_the_repository_never_run(folder: Path, tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {proof}\ncat\n")
    program.chmod(0o755)
    for name in (
        "core.fsmonitor",
        "diff.external",
        "core.pager",
        "filter.x.clean",
        "diff.x.textconv",
    ):
        git(folder, "config", name, str(program))
    (folder / ".gitattributes").write_text("* filter=x diff=x\n")
    (folder / "b.py").write_text("changed\n")
    with git_reader(folder) as reader:
        changes = read_changes(reader, head(reader), None)
        reader.export(head(reader), tmp_path / "tree")
    assert {file.path for file in changes.files} == {".gitattributes", "b.py"}
    assert not proof.exists()
    # The same repository runs them for git itself.
    git(folder, "status")
    assert proof.exists()


def test_copy_of_a_commit_has_only_its_files(
    folder: Path, reader: GitReader, tmp_path: Path
) -> None:
    (folder / "credentials.json").write_text("{}")
    reader.export(head(reader), tmp_path / "tree")
    assert sorted(os.listdir(tmp_path / "tree")) == ["a.py", "b.py"]


def test_main_branch_is_the_main_branch_of_the_remote_if_any(folder: Path, tmp_path: Path) -> None:
    with git_reader(folder) as reader:
        assert reader.main_branch() == "refs/heads/main"
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(folder), str(clone))
    git(clone, "pack-refs", "--all")
    with git_reader(clone) as reader:
        assert reader.main_branch() == "refs/remotes/origin/HEAD"
        assert reader.commit("origin/main") == git(folder, "rev-parse", "main")
        assert reader.commit("--all") is None


def test_linked_worktree_is_read(folder: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(folder, "worktree", "add", "-q", str(linked), "-b", "other")
    (linked / "b.py").write_text("changed\n")
    with git_reader(linked) as reader:
        assert [file.path for file in read_changes(reader, head(reader), None).files] == ["b.py"]


def test_folder_outside_of_a_repository_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not in a git repository"), git_reader(tmp_path):
        pass
