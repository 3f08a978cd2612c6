"""Fuzzy search for files, without ignored and blocked files."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.cli.console.input.file_index import FileIndex


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[FileIndex]:
    for name in ("README.md", "src/readme_parser.py", "src/deep/util.py", "notes/a b.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "noise.log").write_text("x")
    (tmp_path / ".env").write_text("KEY=1")
    index = FileIndex(tmp_path, (".env",))
    yield index
    await index.close()


async def test_name_with_the_prefix_comes_first(files: FileIndex) -> None:
    assert (await files.find("read"))[:2] == ["README.md", "src/readme_parser.py"]


async def test_letters_may_be_scattered_over_the_path(files: FileIndex) -> None:
    assert await files.find("sdut") == ["src/deep/util.py"]


async def test_folders_are_offered_with_a_slash(files: FileIndex) -> None:
    assert (await files.find("deep"))[0] == "src/deep/"


@pytest.mark.parametrize("letters", ["noise", ".env", "env"])
async def test_ignored_and_blocked_files_are_not_offered(files: FileIndex, letters: str) -> None:
    assert await files.find(letters) == []


async def test_paths_outside_are_listed_like_in_a_shell(files: FileIndex, tmp_path: Path) -> None:
    assert await files.find(f"{tmp_path}/src/r") == [f"{tmp_path}/src/readme_parser.py"]
    assert await files.find("./no") == ["./noise.log", "./notes/"]


async def test_missing_folder_offers_nothing(tmp_path: Path) -> None:
    files = FileIndex(tmp_path / "gone")
    assert await files.find("a") == []
    await files.close()
