"""Git in a sandbox: commits work, and the owner's git runs nothing planted by a command."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.shell.exec import Exec

_IDENTITY = "-c user.name=a -c user.email=a@b"


@pytest.fixture
def repository(workspace: Path) -> Path:
    """Return a repository with a commit, whose owner's git would show that it ran a program."""
    for line in (
        ["git", "init", "-q", "-b", "main"],
        ["git", *_IDENTITY.split(), "commit", "-q", "--allow-empty", "-m", "first"],
    ):
        subprocess.run(line, cwd=workspace, check=True)
    return workspace


@pytest.fixture
def exposed(call: CallContext) -> CallContext:
    return replace(call, taint=frozenset({"untrusted"}))


async def run_exec(box: Bubblewrap, call: CallContext, command: str) -> str:
    tool = Exec(replace(ToolSettings(), sandbox=box))
    return (await tool.run({"command": command}, call)).for_model


def owners_git_status(folder: Path) -> None:
    subprocess.run(["git", "status"], cwd=folder, check=False, capture_output=True)


async def test_commit_works(box: Bubblewrap, exposed: CallContext, repository: Path) -> None:
    line = f"echo x > a && git add a && git {_IDENTITY} commit -qm second && git checkout -qb side"
    assert (await run_exec(box, exposed, line)).endswith("[exit code 0]")
    log = subprocess.run(
        ["git", "log", "--format=%s", "side"], cwd=repository, capture_output=True, check=True
    )
    assert log.stdout.split() == [b"second", b"first"]


async def test_hooks_and_the_configuration_cannot_be_changed(
    box: Bubblewrap, exposed: CallContext, repository: Path
) -> None:
    before = (repository / ".git" / "config").read_text()
    tries = (
        "git config core.fsmonitor ./x",
        "echo x > .git/hooks/pre-commit",
        "mv .git/hooks .git/old",
        "rm -rf .git/config",
        "mv .git .other",
    )
    for line in tries:
        assert not (await run_exec(box, exposed, line)).endswith("[exit code 0]"), line
    assert (repository / ".git" / "config").read_text() == before


PLANTED = {
    "a nested repository in the index": (
        "git init -q sub && cd sub && git config core.fsmonitor 'touch ../../ran; false' &&"
        f" git {_IDENTITY} commit -q --allow-empty -m x && cd .. && git add sub"
    ),
    "a nested repository with a hook": (
        "git init -q sub && echo 'touch ../ran' > sub/.git/hooks/post-index-change &&"
        " chmod +x sub/.git/hooks/post-index-change && touch sub/x"
    ),
    "another folder in common": (
        "mkdir evil && cp -r .git/. evil/ && git config -f evil/config core.fsmonitor"
        " 'touch ../ran; false' && echo ../evil > .git/commondir"
    ),
    "a pointer to a store": (
        "git init -q --separate-git-dir store sub;"
        " git config -f store/config core.fsmonitor 'touch ../../ran; false'"
    ),
    "sections on one line": (
        "git init -q sub && touch sub/x && echo '* filter=x' > sub/.gitattributes &&"
        " echo '[user][filter \"x\"] clean = touch ../ran' > sub/.git/config"
    ),
    "a pipe as a configuration": "git init -q sub && rm sub/.git/config && mkfifo sub/.git/config",
    "a bare repository": "git init -q --bare bare && git -C bare config core.fsmonitor ./x",
}


@pytest.mark.parametrize("line", PLANTED.values(), ids=PLANTED.keys())
async def test_files_run_by_git_are_set_aside(
    box: Bubblewrap, exposed: CallContext, repository: Path, line: str
) -> None:
    text = await run_exec(box, exposed, line)
    assert "set-aside" in text, text
    for folder in (repository, repository / "sub", repository / "bare"):
        if folder.is_dir():
            owners_git_status(folder)
    assert not (repository / "ran").exists()
    assert not (repository.parent / "ran").exists()


async def test_ordinary_new_repositories_stay(
    box: Bubblewrap, exposed: CallContext, repository: Path
) -> None:
    line = "git init -q sub && git worktree add -q tree"
    text = await run_exec(box, exposed, line)
    assert "set-aside" not in text, text
    assert (repository / "sub" / ".git" / "config").exists()
    assert (repository / "tree" / ".git").exists()
