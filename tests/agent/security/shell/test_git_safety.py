"""Plain git configurations, as git writes them, and all others."""

import os
import subprocess
from pathlib import Path

import pytest

from agent.security.shell.command_prefix import prefixes_of
from agent.security.shell.git_safety import (
    is_in_bare_repository,
    is_plain_configuration,
    is_plain_text,
    is_safe_repository,
)

LINES = (
    ["init", "-q", "new"],
    ["init", "-q", "--bare", "store"],
    ["init", "-q", "--object-format=sha256", "sha256"],
    ["clone", "-q", "new", "copy"],
    ["clone", "-q", "--bare", "new", "bare"],
    ["clone", "-q", "--mirror", "new", "mirror"],
)


@pytest.mark.programs("git")
def test_configurations_written_by_git_are_plain(tmp_path: Path) -> None:
    for words in LINES:
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    files = [*tmp_path.glob("*/.git/config"), *tmp_path.glob("*/config")]
    assert len(files) == len(LINES)
    for file in files:
        assert is_plain_configuration(file), file.read_text()


def test_ordinary_settings_are_plain() -> None:
    text = """[core]
\trepositoryformatversion = 0
\tautocrlf = input
# a comment
[remote "origin"]
\turl = git@example.test:people/project.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "topic/one"]
\tremote = origin
\tmerge = refs/heads/topic/one
\tvscode-merge-base = origin/main
[user]
\tname = Änne O'Neil
\temail = a@example.test
[commit]
\tgpgsign = false
"""
    assert is_plain_text(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "[core]\n\tfsmonitor = ./x\n",
        "[core]\n\tbare\n",
        "[core] bare = false\n",
        '[user][filter "x"] clean = ./x\n',
        '[user "]"][filter "x"]clean=./x\n',
        "[filter.x]\nclean = ./x\n",
        "[include]\npath = x\n",
        '[includeIf "gitdir:/"]\npath = x\n',
        "\ufeff[core]\nbare = false\n",
        "[core]\r\nbare = false\r\n",
        "[core]\nbare = fal\\\nse\n",
        "[user]\nname = a \\\n\tb\n",
        '[user]\nname = "a\\nb"\n',
        "[core]\nworktree = /\n",
        '[remote "x"]\nurl = ext::sh -c x\n',
        '[remote "x"]\nurl = --upload-pack=x\n',
        '[remote "x"]\nuploadpack = ./x\n',
        '[remote "x"]\nvcs = x\n',
        '[branch "x"]\nmerge = --x\n',
        "[commit]\ngpgsign = true\n",
        "[alias]\nst = !x\n",
        "[core]\nbare = false\0\n",
        '[core "a\\"b"]\nbare = false\n',
        "bare = false\n",
    ],
)
def test_other_settings_are_not_plain(text: str) -> None:
    assert not is_plain_text(text.encode())


def test_invalid_utf8_is_not_plain() -> None:
    assert not is_plain_text(b"[user]\nname = \xff\n")


def test_only_small_regular_files_are_plain(tmp_path: Path) -> None:
    pipe, link, large = tmp_path / "pipe", tmp_path / "link", tmp_path / "large"
    os.mkfifo(pipe)
    link.symlink_to("/dev/null")
    large.write_text("# x\n" * 20_000)
    for file in (pipe, link, large, tmp_path):
        assert not is_plain_configuration(file), file
    assert is_plain_configuration(tmp_path / "missing")


@pytest.mark.programs("git")
@pytest.mark.parametrize("layout", ["plain", "head is a link", "objects elsewhere"])
def test_folder_that_git_takes_for_a_bare_repository_is_not_safe(
    layout: str, tmp_path: Path
) -> None:
    folder, store = tmp_path / "sub", tmp_path / "store"
    folder.mkdir()
    if layout == "head is a link":
        (folder / "HEAD").symlink_to("refs/heads/main")
    else:
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
    if layout == "objects elsewhere":
        (folder / "commondir").write_text("../store\n")
    else:
        store = folder
    (store / "objects").mkdir(parents=True)
    (store / "refs").mkdir()
    (store / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
    (folder / "deep").mkdir()
    words = ["git", "-C", "sub/deep", "rev-parse", "--is-bare-repository"]
    answer = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert answer.stdout == "true\n"
    for inside in (folder, folder / "deep"):
        assert is_in_bare_repository(str(inside), str(tmp_path))
        assert not is_safe_repository(str(inside), str(tmp_path))
        assert prefixes_of("git commit", inside, tmp_path, is_confined=True) == ()
    for line in ("cd sub && git commit", "cd sub/deep && npm test", "cd sub || git commit"):
        assert prefixes_of(line, tmp_path, tmp_path, is_confined=True) == ()
    assert prefixes_of("git commit", tmp_path, tmp_path, is_confined=True)
