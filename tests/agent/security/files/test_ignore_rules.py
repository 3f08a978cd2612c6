import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.security.files.ignore_rules import Ignores

ROOT = Path("/w")


def ignores(files: Mapping[str, str], start: str = ".") -> Ignores:
    """Return the rules; `files` maps each folder to its `.gitignore`."""
    result = {ROOT / folder / ".gitignore": text.encode() for folder, text in files.items()}
    return Ignores(ROOT, ROOT / start, result.get)


def hidden(files: Mapping[str, str] | str, path: str, start: str = ".") -> bool:
    by_folder = {".": files} if isinstance(files, str) else files
    return ignores(by_folder, start).hides(path.rstrip("/").split("/"), is_folder=path[-1] == "/")


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("*.log", "a/b.log", True),
        ("*.log\n!keep.log", "keep.log", False),
        ("!keep.log\n*.log", "keep.log", True),
        ("build/", "build/x", True),
        ("build/", "a/build/x/y", True),
        ("build/", "build", False),
        ("/build", "a/build", False),
        ("a/b", "a/b", True),
        ("a/b", "c/a/b", False),
        ("a/**/b", "a/x/y/b", True),
        ("a/**", "a/x", True),
        ("a/**\n!a/x", "a/x", False),
        ("a/*\n!a/x", "a/x", False),
        ("a/\n!a/x", "a/x", True),
        ("# a", "# a", False),
        (r"\#a", "#a", True),
        (r"\!a", "!a", True),
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
        ("[^a].txt", "b.txt", True),
        ("[^a].txt", "a.txt", False),
        ("a ", "a", True),
        ("a\\ ", "a ", True),
        ("a\r\nb", "a", True),
        ("\ufeffa", "a", True),
        ("\n/\n!\n", "a", False),
        ("*\n!*/\n!*.py", "a/b.py", False),
        ("*\n!*/\n!*.py", "a/b.c", True),
        ("a/b\n!a", "a/b", True),
        ("a/**/", "a/x", False),
        ("a/**/", "a/x/y", True),
        ("a/**/", "a/", False),
        ("!/\n*", "a", True),
        ("[", "[", False),
        ("[z-a]\n*.o\na\\", "x.o", True),
        ("*.o", "a\nb/c\n.o", True),
        ("a*z", "a\udcffz", True),
    ],
)
def test_patterns_match_as_in_git(text: str, path: str, expected: bool) -> None:
    assert hidden(text, path) is expected


def test_innermost_file_takes_precedence() -> None:
    files = {".": "*.txt\n", "a": "!keep.txt\n", "a/b": "keep.txt\n"}
    assert not hidden(files, "a/keep.txt")
    assert hidden(files, "a/drop.txt")
    assert hidden(files, "a/b/keep.txt")


def test_ignore_files_above_the_searched_folder_apply() -> None:
    files = {".": "/a/b/x\n", "a": "b/y\n"}
    assert hidden(files, "x", "a/b")
    assert hidden(files, "y", "a/b")
    assert not hidden(files, "z", "a/b")


def test_only_the_files_of_an_ignored_folder_apply_inside_it() -> None:
    files = {".": "a/\n*.log\n", "a": "y\n"}
    assert not hidden(files, "x.log", "a")
    assert hidden(files, "y", "a")


@pytest.mark.parametrize(
    "text",
    [
        "*a" * 400,
        "\n".join(["**/a*a*/" * 60] * 2_000),
        "\n".join(f"*a*{'?' * n}b*" for n in range(400)),
        "\n".join(f"*.x{n}" for n in range(100_000)),
        "a" * 900_000,
    ],
)
def test_hostile_pattern_is_fast(text: str) -> None:
    """Backtracking would exceed the suite's time limit by far."""
    result = ignores({".": f"*.log\n{text}"})
    assert result.hides(["x.log"])
    assert not result.hides(["b" * 200 + ".py"])
    result.hides(["a" * 200] * 10)


NAMES = st.sampled_from(["a", "b", "ab", "b.c", "abc"])
PART = st.lists(
    st.sampled_from(["a", "b", "c", ".", "*", "?", "[ab]", "[!a]"]), min_size=1, max_size=4
)
PATTERN = st.builds(
    lambda parts, front, back, keeps: ("!" if keeps else "") + front + "/".join(parts) + back,
    st.lists(st.one_of(PART.map("".join), NAMES, st.just("**")), min_size=1, max_size=3),
    st.sampled_from(["", "/"]),
    st.sampled_from(["", "/"]),
    st.booleans(),
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", folder], check=True)
    return folder


@given(st.lists(PATTERN, min_size=1, max_size=4), st.lists(NAMES, min_size=1, max_size=4))
def test_random_patterns_agree_with_git(
    repository: Path, patterns: list[str], parts: list[str]
) -> None:
    (repository / ".gitignore").write_text("\n".join(patterns))
    command = ["git", "check-ignore", "-q", "--no-index", "/".join(parts)]
    code = subprocess.run(command, cwd=repository, check=False).returncode
    assert hidden("\n".join(patterns), "/".join(parts)) is {0: True, 1: False}[code]
