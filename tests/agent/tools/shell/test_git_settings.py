"""The person's git settings and unattended programs in commands of the model."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agent.security.sandbox.bubblewrap import Bubblewrap
from agent.security.sandbox.git_defaults import read_git_defaults
from agent.settings import ToolSettings
from agent.tools.base import CallContext
from agent.tools.shell.exec import Exec
from tests.ordinary_user import USERS, require_sandbox, run_as, shared_place

PROGRAM = Path("tests", "agent", "tools", "shell", "git_in_worktree.py")

GITCONFIG = """\
[user]
	name = "Ada \\"Countess\\" Lovelace"
	email = ada@example.org
[init]
	defaultBranch = trunk
[core]
	excludesFile = ~/key
	editor = touch edited
	fsmonitor = touch ran
	hooksPath = ~/hooks
[alias]
	ci = !touch alias-ran
[commit]
	gpgsign = true
	template = ~/key
[include]
	path = ~/more
[safe]
	directory = /srv/a
	directory = /srv/b
"""


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home of a person with git settings."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(GITCONFIG)
    (home / "key").write_text("canary\n")
    (home / "more").write_text("[pull]\n\trebase = true\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return home


async def run_exec(box: Bubblewrap, call: CallContext, command: str) -> str:
    tool = Exec(replace(ToolSettings(), sandbox=box))
    return (await tool.run({"command": command}, call)).for_model


async def test_commit_has_the_persons_identity(
    box: Bubblewrap, call: CallContext, person: Path
) -> None:
    line = "git init -q && touch a && git add . && git commit -qm first"
    assert await run_exec(box, call, f"{line} && git ls-files") == "a\n[exit code 0]"
    log = ("git", "log", "--format=%an <%ae> %D")
    ran = subprocess.run(log, cwd=call.workspace, capture_output=True, text=True, check=True)
    assert ran.stdout == 'Ada "Countess" Lovelace <ada@example.org> HEAD -> trunk\n'


async def test_settings_that_name_programs_are_left_out(
    box: Bubblewrap, call: CallContext, person: Path
) -> None:
    shown = await run_exec(box, call, "git config --system --list")
    assert "pull.rebase=true" in shown
    assert [line for line in shown.splitlines() if line.startswith("safe.")] == [
        *("safe.directory=/srv/a", "safe.directory=/srv/b")
    ]
    for name in ("editor", "fsmonitor", "hookspath", "alias", "gpgsign", "include", "template"):
        assert name not in shown
    assert "canary" not in await run_exec(box, call, "cat /etc/kore-git/config")


@pytest.mark.parametrize("is_default", [True, False])
async def test_ignored_files_of_the_person_are_ignored(
    box: Bubblewrap, call: CallContext, person: Path, *, is_default: bool
) -> None:
    file = person / (".config/git/ignore" if is_default else "key")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("*.swp\n.idea/\n")
    if is_default:
        (person / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
    line = "git init -q && touch a a.swp && git add -A && git ls-files && git status --porcelain"
    assert await run_exec(box, call, line) == "a\nA  a\n[exit code 0]"


def refused_excludes(person: Path, case: str) -> None:
    """Change the settings so that a command could have chosen the file of excludes."""
    main, key, other = person / ".gitconfig", person / "key", person / "other"
    match case:
        case "included":
            main.write_text("[include]\n\tpath = ~/more\n")
            (person / "more").write_text("[core]\n\texcludesFile = ~/key\n")
        case "linked settings":
            main.rename(person / "dotfile")
            main.symlink_to("dotfile")
        case "linked file":
            key.rename(other)
            key.symlink_to(other)
        case "linked folder":
            other.mkdir()
            key.rename(other / "key")
            (person / "folder").symlink_to(other)
            main.write_text("[core]\n\texcludesFile = ~/folder/key\n")
        case "pipe":
            key.unlink()
            os.mkfifo(key)
        case "large":
            key.write_text("canary\n" * 10_000)
        case "relative":
            main.write_text("[core]\n\texcludesFile = key\n")
        case "default linked":
            main.write_text("")
            (person / ".config/git").mkdir(parents=True)
            (person / ".config/git/ignore").symlink_to(key)


@pytest.mark.parametrize(
    "case",
    [
        *("included", "linked settings", "linked file", "linked folder"),
        *("pipe", "large", "relative", "default linked"),
    ],
)
def test_excludes_that_a_command_may_have_chosen_are_not_shown(person: Path, case: str) -> None:
    assert read_git_defaults(None).excludes == b"canary\n"
    refused_excludes(person, case)
    assert read_git_defaults(None).excludes == b""


async def test_repositorys_settings_take_precedence(
    box: Bubblewrap, call: CallContext, person: Path
) -> None:
    subprocess.run(["git", "init", "-q"], cwd=call.workspace, check=True)
    command = ["git", "config", "user.email", "work@example.org"]
    subprocess.run(command, cwd=call.workspace, check=True)
    assert "work@example.org" in await run_exec(box, call, "git config user.email")
    line = "git config --global user.name Other && git config user.name"
    assert "Other" in await run_exec(box, call, line)
    assert "Other" not in (person / ".gitconfig").read_text()


def test_conditional_includes_are_judged_for_the_folder(person: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=work, check=True)
    with (person / ".gitconfig").open("a") as file:
        file.write(f'[includeIf "gitdir:{work}/"]\n\tpath = ~/at-work\n')
    (person / "at-work").write_text("[user]\n\temail = ada@work.example\n")
    assert ("user.email", "ada@work.example") in read_git_defaults(work).values
    assert ("user.email", "ada@example.org") in read_git_defaults(None).values


async def test_no_command_waits_for_an_editor_or_pager(
    box: Bubblewrap, call: CallContext, person: Path
) -> None:
    line = "git init -q && git commit --allow-empty; git commit -qm a --allow-empty"
    line += "; git commit -q --amend --allow-empty && git rebase -q -i --root"
    shown = await run_exec(box, call, line)
    assert "empty commit message" in shown
    assert shown.endswith("[exit code 0]"), shown
    assert "TERM=dumb" in await run_exec(box, call, "env | grep ^TERM=")


@pytest.mark.parametrize("user", USERS[-1:])
def test_landlock_shows_the_settings(user: str) -> None:
    require_sandbox("landlock")
    with shared_place(PROGRAM) as place:
        (place / user / ".gitconfig").write_text(GITCONFIG)
        order = {"name": "landlock", "home": str(place / user)}
        lines = ["git commit -qm second --allow-empty && git log -1 --format=%ae"]
        [(code, output)] = run_as(user, place, PROGRAM, {**order, "lines": lines})["results"]
    assert (code, output) == (0, "ada@example.org\n")


async def test_status_does_not_read_every_file_again(box: Bubblewrap, call: CallContext) -> None:
    """The sandbox of root shows other owners than the index records."""
    file = call.workspace / "a.py"
    file.write_text("print(1)\n")
    (call.workspace / ".gitattributes").write_text("*.py filter=x\n")
    # A file as young as the index is always read.
    os.utime(file, (1_000_000_000, 1_000_000_000))
    person = "-c user.name=A -c user.email=a@example.org"
    for command in (
        "init -q",
        "add .",
        f"{person} commit -qm first",
        "config filter.x.clean false",
        "config filter.x.required true",
    ):
        subprocess.run(["git", *command.split()], cwd=call.workspace, check=True)
    assert await run_exec(box, call, "git status --porcelain") == "[exit code 0]"
