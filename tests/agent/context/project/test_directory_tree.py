"""Directory tree shown to the model."""

from pathlib import Path

from agent.context.project.directory_tree import TreeLimits, tree
from agent.providers.token_estimate import estimate_text


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * 10)


def test_folders_come_first_and_files_have_sizes(tmp_path: Path) -> None:
    make(tmp_path, "b.py", "src/a.py", ".git/config")
    (tmp_path / "big").write_bytes(b"x" * 12_345)
    assert tree(tmp_path, TreeLimits()).text == "src/\n  a.py (10 B)\nb.py (10 B)\nbig (12 kB)"


def test_nested_gitignore_files_are_applied(tmp_path: Path) -> None:
    make(tmp_path, "build/x.o", "a.log", "keep/a.log", "keep/b.py", "src/secret.txt")
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    (tmp_path / "keep" / ".gitignore").write_text("!a.log\n")
    shown = tree(tmp_path, TreeLimits()).text
    assert "x.o" not in shown
    assert "build" not in shown
    assert shown.count("a.log") == 1
    assert "b.py" in shown


def test_long_folder_counts_its_omitted_files(tmp_path: Path) -> None:
    make(tmp_path, *(f"f{n:02}.txt" for n in range(75)))
    lines = tree(tmp_path, TreeLimits(per_folder=50), 5000).text.splitlines()
    assert len(lines) == 51
    assert lines[-1] == "... (25 more files)"


def test_tree_depth_is_limited(tmp_path: Path) -> None:
    make(tmp_path, "1/2/3/4/5/6/deep.txt")
    shown = tree(tmp_path, TreeLimits(depth=3)).text
    assert "3/" in shown
    assert "4/" not in shown


def test_large_folder_takes_few_tokens(tmp_path: Path) -> None:
    make(tmp_path, *(f"d{n}/e{m}/file_{n}_{m}.txt" for n in range(30) for m in range(10)))
    shown = tree(tmp_path, TreeLimits()).text
    assert estimate_text(shown) <= 510
    assert "d0/" in shown


def test_links_are_not_followed_and_odd_names_are_harmless(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    make(tmp_path, "a\nb.txt")
    shown = tree(tmp_path, TreeLimits()).text
    assert "a?b.txt" in shown
    assert shown.count("loop") == 1


def test_unreadable_ignore_file_hides_nothing(tmp_path: Path) -> None:
    make(tmp_path, "a.py")
    (tmp_path / ".gitignore").mkdir()
    assert "a.py" in tree(tmp_path, TreeLimits()).text
    assert tree(tmp_path / "nowhere", TreeLimits()).text == ""
