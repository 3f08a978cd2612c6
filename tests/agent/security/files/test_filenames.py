from pathlib import Path

import pytest

from agent.security.files.paths import folded_path, normalize_filename, same_names


@pytest.mark.parametrize(
    "name",
    [".GIT", ".Git", ".git.", ".git ", ".git . .", ".g\u200cit", ".\ufeffgit", "．ｇｉｔ",
     ".gi\u2060t", ".git:stream", ".git::$INDEX_ALLOCATION", "GIT~1", "git~2", ".gIt"],
)  # fmt: skip
def test_every_spelling_of_git_is_recognized(name: str) -> None:
    assert same_names([name], [".git"])


@pytest.mark.parametrize(
    "name", [".gitignore", ".github", "git", "xgit~1", "gi~1", ".git~", "git~x", "digit"]
)
def test_other_names_do_not_match(name: str) -> None:
    assert not same_names([name], [".git"])


def test_short_names_of_long_names_are_recognized() -> None:
    assert same_names(["NODE_M~1", "CACHE~3"], ["node_modules", ".cache"])


def test_composed_and_decomposed_names_are_equal() -> None:
    assert normalize_filename("Ca\u0301fe\u0301") == normalize_filename("C\u00e1F\u00c9")
    assert folded_path(Path("/A/B/ｃ")) == Path("/a/b/c")


@pytest.mark.parametrize("name", ["...", " ", ":x", "\u200b"])
def test_normalized_name_is_never_empty(name: str) -> None:
    assert normalize_filename(name)
