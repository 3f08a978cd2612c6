"""Remote file access, limited to a person's own files."""

import os
from pathlib import Path

import pytest

from agent.errors import KoreError
from agent.security.taint.file_marks import is_marked, mark_tainted
from agent.settings import ToolSettings
from gateway.config import Settings
from gateway.config.sections import AgentSection, SecuritySection
from gateway.ops.project_files import ProjectFiles


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (folder := tmp_path / "project").mkdir()
    (folder / "a.txt").write_text("apple\n")
    (folder / ".env").write_text("KEY=1")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "workspace").mkdir()
    return folder


@pytest.fixture
def files(project: Path) -> ProjectFiles:
    workspace = project.parent / "workspace"
    sections = {
        "agent": AgentSection(workspace=workspace),
        "security": SecuritySection(trusted_folders=(str(project),)),
    }
    tools = ToolSettings(blocked_paths=(".env",), off_limits=(project / "own",))
    return ProjectFiles(Settings().model_copy(update=sections), tools)


def names(files: ProjectFiles, place: Path, path: str = "") -> list[str]:
    return [entry["name"] for entry in files.list_folder(str(place), path)]


def test_places_are_the_folders_of_the_owner(files: ProjectFiles, project: Path) -> None:
    assert files.list_places() == [str(project.parent / "workspace"), str(project)]


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "x/../../secret.txt",
        "/etc/passwd",
        "~/.ssh/id_rsa",
        "link.txt",
        "linked/secret.txt",
        ".env",
        "own/key",
        "pipe",
        "/proc/self/environ",
        "a\0b",
        "",
        "a.txt/b",
    ],
)
def test_other_files_are_not_read_or_written(files: ProjectFiles, project: Path, path: str) -> None:
    (project / "link.txt").symlink_to(project.parent / "secret.txt")
    (project / "linked").symlink_to(project.parent)
    (project / "own").mkdir()
    (project / "own" / "key").write_text("key")
    os.mkfifo(project / "pipe")
    for place in (str(project), str(project / ".."), str(project.parent), "/", ""):
        with pytest.raises(KoreError):
            files.read_file(place, path)
        with pytest.raises(KoreError):
            files.write_file(files.call(place), path, "mine", "")
    assert (project.parent / "secret.txt").read_text() == "secret"
    assert (project / "own" / "key").read_text() == "key"
    assert names(files, project) == ["a.txt"]


def test_encoding_mode_and_mark_are_preserved(files: ProjectFiles, project: Path) -> None:
    path = project / "b.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    path.chmod(0o640)
    mark_tainted(path, project)
    shown = files.read_file(str(project), "b.txt")
    files.write_file(files.call(str(project)), "b.txt", "one\nthree\n", shown["digest"])
    assert path.read_bytes() == b"\xef\xbb\xbfone\r\nthree\r\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert is_marked(path)


def test_binary_or_oversized_file_is_rejected(files: ProjectFiles, project: Path) -> None:
    (project / "picture").write_bytes(b"\x89PNG\0\0")
    (project / "large").write_bytes(b"x" * 1_000_001)
    for name in ("picture", "large"):
        with pytest.raises(KoreError):
            files.read_file(str(project), name)
    with pytest.raises(KoreError, match="may have"):
        files.write_file(files.call(str(project)), "new", "x" * 1_000_001, "")
    assert not (project / "new").exists()
    assert files.read_file(str(project), "new") == {"text": "", "digest": "", "size": 0}


def test_concurrent_change_is_not_overwritten(files: ProjectFiles, project: Path) -> None:
    shown = files.read_file(str(project), "a.txt")
    (project / "a.txt").write_text("pear\n")
    with pytest.raises(KoreError, match="changed meanwhile"):
        files.write_file(files.call(str(project)), "a.txt", "plum\n", shown["digest"])
    (project / "a.txt").unlink()
    with pytest.raises(KoreError, match="changed meanwhile"):
        files.write_file(files.call(str(project)), "a.txt", "plum\n", shown["digest"])


def test_huge_folder_is_listed_in_part(files: ProjectFiles, project: Path) -> None:
    (project / "many").mkdir()
    for n in range(2_100):
        (project / "many" / f"{n}").touch()
    assert len(names(files, project, "many")) == 2_000
