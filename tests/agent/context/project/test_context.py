"""Description of a project folder and of mentioned files for the model."""

from collections.abc import Sequence, Set
from pathlib import Path

from agent.context.project.context import ProjectContext
from agent.providers.token_estimate import estimate_text
from agent.security.taint.origin import TrustedOrigins
from agent.types import Taint
from tests.agent.notebooks import CELLS, notebook_json

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def test_folder_and_files_are_reported_once_until_they_change(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("print(1)")
    project = ProjectContext(tmp_path, [file])
    first = project.news()
    assert first is not None
    assert "print(1)" in first.text
    assert "a.py (8 B)" in first.text
    assert project.news() is None
    file.write_text("print(2)")
    second = project.news()
    assert second is not None
    assert "print(2)" in second.text
    assert "a.py (8 B)" not in second.text, "the tree is the same"


def test_notebook_is_shown_as_cells(tmp_path: Path) -> None:
    file = tmp_path / "sales.ipynb"
    file.write_text(notebook_json(CELLS))
    news = ProjectContext(tmp_path, [file]).news()
    assert news is not None
    assert "[cell 3: code]\nframe.sum()\n" in news.text
    assert "execution_count" not in news.text


def test_files_outside_trusted_folders_are_untrusted(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    for folder in (mine, theirs):
        folder.mkdir()
        (folder / "a.py").write_text("print(1)")
        (folder / "empty").mkdir()
    (mine / "link.py").symlink_to(theirs / "a.py")
    origin = TrustedOrigins((mine,))

    def taint(root: Path | None, *files: Path, named: Sequence[Path] = ()) -> Set[Taint]:
        news = ProjectContext(root, files, origin=origin).news(named)
        assert news is not None
        return news.taint

    assert taint(mine, mine / "a.py") == {"private"}
    for both in (
        taint(theirs),
        taint(theirs / "empty"),
        taint(mine, theirs / "a.py"),
        taint(None, theirs / "a.py"),
        taint(mine, mine / "link.py"),
        taint(mine, named=[theirs / "empty"]),
    ):
        assert both == {"private", "untrusted"}


def test_news_is_repeated_after_forget(tmp_path: Path) -> None:
    project = ProjectContext(tmp_path)
    assert project.news() is not None
    project.forget()
    assert project.news() is not None


def test_files_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    files = [tmp_path / f"{n}.txt" for n in range(4)]
    for file in files:
        file.write_text("word " * 200)
    news = ProjectContext(None, files, limit=300).news()
    assert news is not None
    assert news.evicted == 3
    assert "0.txt; this is its content now" in news.text
    assert news.text.count("word") == 200
    for name in ("1.txt", "2.txt", "3.txt"):
        assert f"{name} (1 kB). It does not fit here: read it in parts" in news.text


def test_too_long_file_is_named_with_its_size(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    file.write_text("line\n" * 300_000)
    news = ProjectContext(None, [file], limit=10_000_000).news()
    assert news is not None
    assert news.evicted == 1
    assert "log.txt (1.5 MB). It does not fit here" in news.text


def test_binary_file_is_named_with_the_way_to_read_it(tmp_path: Path) -> None:
    for name, data in (("a.bin", b"a\0b"), ("b.pdf", b"%PDF-1.4 text")):
        (tmp_path / name).write_bytes(data)
        news = ProjectContext(None, [tmp_path / name]).news()
        assert news is not None
        assert f"{name} ({len(data)} B). It is not text and is not shown here" in news.text
        assert "\ufffd" not in news.text
        assert "\0" not in news.text
        assert news.evicted == 0


def test_unreadable_file_is_reported_with_the_reason(tmp_path: Path) -> None:
    news = ProjectContext(None, [tmp_path / "gone.txt"]).news()
    assert news is not None
    assert "gone.txt, which cannot be read: No such file or directory" in news.text


def test_new_pictures_are_returned_once(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(PNG)
    project = ProjectContext(None, [picture])
    assert project.news() is None
    assert project.new_pictures() == [picture]
    assert project.new_pictures() == []
    picture.write_bytes(PNG + b"more")
    assert project.new_pictures() == [picture]


def test_too_large_picture_is_named(tmp_path: Path) -> None:
    picture = tmp_path / "huge.png"
    picture.write_bytes(PNG + bytes(4_000_000))
    project = ProjectContext(None, [picture])
    news = project.news()
    assert news is not None
    assert "huge.png (4.0 MB). It is not text" in news.text
    assert project.new_pictures() == []


def test_mentioned_folder_is_listed(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("a")
    news = ProjectContext(None, [tmp_path / "docs"]).news()
    assert news is not None
    assert f"[The folder {tmp_path / 'docs'}, as it is now:]" in news.text
    assert "a.md" in news.text


def test_link_in_place_of_the_start_folder_is_not_read(tmp_path: Path) -> None:
    root, private = tmp_path / "repo", tmp_path / "private"
    for folder in (root / "packages" / "api", private / "api"):
        folder.mkdir(parents=True)
    (root / "packages" / "api" / "README.md").write_text("about the API")
    (private / "api" / "README.md").write_text("a secret")
    project = ProjectContext(root, start_folder=root / "packages" / "api")
    news = project.news()
    assert news is not None
    assert "about the API" in news.text
    (root / "packages").rename(root / "moved")
    (root / "packages").symlink_to(private)
    project.forget()
    news = project.news()
    assert news is not None
    assert "a secret" not in news.text
    assert f"[The folder {root / 'packages' / 'api'}," not in news.text


def test_secrets_are_redacted(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("key hunter2")
    news = ProjectContext(None, [file], clean=lambda text: text.replace("hunter2", "***")).news()
    assert news is not None
    assert "hunter2" not in news.text


def test_deleted_file_is_not_an_error(tmp_path: Path) -> None:
    assert ProjectContext(None, [tmp_path / "gone"]).news() is not None
    assert ProjectContext(None).news() is None


def test_readme_and_configuration_follow_the_tree(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("\n".join(f"line {n}" for n in range(5_000)))
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "kore"')
    project = ProjectContext(tmp_path)
    news = project.news()
    assert news is not None
    assert news.text.index("README.md (") < news.text.index("line 0\n")
    assert "line 0\n" in news.text
    assert "line 4999" not in news.text
    assert 'name = "kore"' in news.text
    assert estimate_text(news.text) < 1_500
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "kora"')
    again = project.news()
    assert again is not None
    assert "kora" in again.text
    assert "line 0" not in again.text


def test_named_files_take_precedence_over_folder_files(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("the readme")
    (tmp_path / "Makefile").write_text("all: " + "word " * 300)
    focus = tmp_path / "a.txt"
    focus.write_text("word " * 200)
    news = ProjectContext(tmp_path, [tmp_path / "README.md", focus], limit=280).news()
    assert news is not None
    assert news.text.count("the readme") == 1
    assert "refers to the file" in news.text
    assert "all:" not in news.text
    assert news.evicted == 0


def test_inaccessible_file_is_named(tmp_path: Path) -> None:
    project = ProjectContext(tmp_path, [tmp_path / ("a" * 300)], limit=1_000)
    assert project.new_pictures() == []
    news = project.news()
    assert news is not None
    assert "cannot be read: File name too long" in news.text


def test_readme_link_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("4711")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "README.md").symlink_to(secret)
    news = ProjectContext(folder).news()
    assert news is not None
    assert "4711" not in news.text
