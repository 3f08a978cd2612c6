"""Words of shell lines that delete files."""

from pathlib import Path

import pytest

from agent.security.policy.call_effects import possible_folders
from agent.security.shell.deletions import DeletionTargets, deletion_targets, may_delete
from agent.security.shell.parser import parse_script


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("a.log", "b.log", ".git", "src"):
        (tmp_path / name).mkdir()
    (tmp_path / "src" / "link").symlink_to("/etc")
    return tmp_path.resolve()


def targets_of(line: str, root: Path) -> DeletionTargets | None:
    script = parse_script(line)
    return deletion_targets(script, possible_folders(script, root), root)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("rm -rf .git secret.env", [".git", "secret.env"]),
        ("rm -- -x", ["-x"]),
        ("rm *.log", ["a.log", "b.log"]),
        ("rm '*.log'", ["*.log"]),
        ("cd src && rm x", ["x", "src/x"]),
        ("rm src/link", ["src/link"]),
        ("for f in a b; do rm $f.txt; done", ["a.txt", "b.txt"]),
        ('for f in *.log; do rm -r "$f"; done', ["a.log", "b.log"]),
        ("sh -c 'rm -r src'", ["src"]),
        ("env X=1 rm src", ["src"]),
        ("r\\m src; 'r'm a.log", ["src", "a.log"]),
        ("rm /etc/passwd", ["/etc/passwd"]),
        ("rmdir src; unlink a.log; shred -u b.log", ["src", "a.log", "b.log"]),
        ("rm ../other", ["../other"]),
    ],
)
def test_named_files_are_listed(root: Path, line: str, names: list[str]) -> None:
    targets = targets_of(line, root)
    assert may_delete(line)
    assert targets is not None
    assert set(targets.paths) == {
        (root / name).parent.resolve() / Path(name).name for name in names
    }
    assert targets.search_roots == ()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("D=.git; rm -rf $D", "."),
        ("rm $(ls)", "."),
        ("ls | xargs rm", "."),
        ("find src -name '*.o' -delete", "src"),
        ("find . -exec rm {} +", "."),
        ("git clean -fdx", "."),
        ("cd $X && rm a", "."),
        ('eval "$X"; rm a', "."),
    ],
)
def test_computed_file_names_are_unknown(root: Path, line: str, name: str) -> None:
    targets = targets_of(line, root)
    assert may_delete(line)
    assert targets is not None
    assert root / name in targets.search_roots


@pytest.mark.parametrize(
    "line",
    ["ls", "git rm --cached a", "echo rm", "git clean -nx", "find . -name rm", "git clean -f"],
)
def test_other_lines_delete_no_files(root: Path, line: str) -> None:
    assert targets_of(line, root) is None
