"""`@path` mentions in a line, and text that only looks like a mention."""

from pathlib import Path

import pytest

from gateway.cli.console.input.file_mentions import find_mentions


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    for name in ("notes.md", "a b.txt", "src/x.py"):
        (root / name).write_text("text")
    (root / "blob.bin").write_bytes(b"a\0b")
    (root / "shot.PNG").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 20)
    (root / "huge.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 4_000_000)
    (root / ".env").write_text("KEY=1")
    (tmp_path / "secret.txt").write_text("outside")
    return root


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("see @notes.md, please", ["notes.md"]),
        ("(@src/x.py) and @notes.md.", ["x.py", "notes.md"]),
        ('@"a b.txt"', ["a b.txt"]),
        ("@src/", ["src"]),
        ("@notes.md @notes.md", ["notes.md"]),
        ("me@notes.md", []),
        ("@nobody wrote", []),
        ("@" + "x" * 5000, []),
    ],
)
def test_files_are_mentioned_at_the_beginning_of_a_word(
    folder: Path, line: str, names: list[str]
) -> None:
    assert [path.name for path in find_mentions(line, folder, ()).files] == names


def test_pictures_blocked_and_binary_files_are_distinguished(folder: Path) -> None:
    mentions = find_mentions("@shot.PNG @.env @blob.bin @huge.png", folder, (".env",))
    assert [path.name for path in mentions.pictures] == ["shot.PNG"]
    assert [path.name for path in mentions.blocked] == [".env"]
    assert [path.name for path in mentions.binary] == ["blob.bin", "huge.png"]
    assert mentions.files == []


def test_link_to_a_blocked_file_is_blocked(folder: Path) -> None:
    (folder / "plain.txt").symlink_to(folder / ".env")
    assert find_mentions("@plain.txt", folder, (".env",)).files == []


def test_pasted_mentions_are_limited_to_the_folder(folder: Path) -> None:
    line = "@../secret.txt @notes.md"
    assert [path.name for path in find_mentions(line, folder, ()).files] == [
        "secret.txt",
        "notes.md",
    ]
    pasted = [(0, len(line))]
    assert [path.name for path in find_mentions(line, folder, (), pasted).files] == ["notes.md"]


def test_missing_paths_are_reported_but_not_people_s_names(
    folder: Path,
) -> None:
    line = '@notse.md, @src/y.py; @"no such" @nobody @someone. @notes.md me@no.md'
    assert find_mentions(line, folder, ()).missing == ["notse.md", "src/y.py", "no such"]
    assert find_mentions(line, folder, (), [(0, len(line))]).missing == []
