"""Marks on all results of commands that have read untrusted text.

The tests run in every sandbox and without one, as root and as an ordinary user.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.ordinary_user import ROOT, USERS, require_sandbox, run_as, shared_place

PROGRAM = Path(__file__).with_name("hostile_command.py").relative_to(ROOT)
SANDBOXES = [
    (user, name)
    for user in USERS
    for name in ("bwrap", "landlock", "none")
    if (user, name) != ("root", "landlock")
]
Run = Callable[..., dict[str, Any]]
MODES = ("0444", "0000", "0200")
# Commands that create links and FIFOs, which have no attributes of their own.
UNMARKABLE = {
    f"{folder}obey me, {name}": command
    for folder in ("", "memory/")
    for name, command in {
        "target of a link": "ln -s 'OBEY ME'",
        "name of a link": "ln -s mine.md",
        "name of a FIFO": "mkfifo",
    }.items()
}


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    with shared_place(PROGRAM) as folder:
        yield folder


@pytest.fixture(scope="module", params=SANDBOXES, ids="-".join)
def hostile(place: Path, request: pytest.FixtureRequest) -> Run:
    """Run a command and return the output of hostile_command.py."""
    user, name = request.param
    require_sandbox(name)

    def play(command: str, **more: bool) -> dict[str, Any]:
        order = {"name": name, "command": command, **more}
        result: dict[str, Any] = run_as(user, place, PROGRAM, order)
        return result

    return play


@pytest.fixture(scope="module")
def paths(hostile: Run) -> dict[str, Any]:
    """Return the marks that one command leaves on files, folders, links, FIFOs and a branch."""
    files = [f"cp page.md {mode}.md; chmod {mode} {mode}.md" for mode in MODES]
    names = [f"{command} '{path}'" for path, command in UNMARKABLE.items()]
    folder = "mkdir 'obey me'; cp page.md 'obey me'; chmod 0555 'obey me'"
    branch = "mkdir .git; echo 'ref: refs/heads/obey-me' > .git/HEAD; chmod 0444 .git/HEAD"
    paths: dict[str, Any] = hostile("; ".join([*files, *names, folder, branch]))["paths"]
    return paths


@pytest.mark.parametrize("target", ["page.md", "mine.md"])
def test_link_is_not_a_prompt_file(hostile: Run, target: str) -> None:
    names = ("AGENT.md", "USER.md", "memory/MEMORY.md", "persona.md")
    links = [f"ln -s $PWD/{target} new; mv new {name}" for name in names]
    # `mine.md` receives the text only after the link was made.
    result = hostile("; ".join([*links, "cat page.md >> mine.md"]))
    assert "OBEY ME" not in result["prompt"]
    for name in names:
        assert any(Path(name).name in notice for notice in result["notices"]), name


def test_folder_of_prompt_files_is_not_a_link(hostile: Run) -> None:
    result = hostile("mkdir other; cp page.md other/MEMORY.md; rmdir memory; ln -s other memory")
    assert "OBEY ME" not in result["prompt"]
    assert any("MEMORY.md" in notice for notice in result["notices"])


def test_file_without_write_permission_is_marked(paths: dict[str, Any]) -> None:
    for mode in MODES:
        assert paths[f"{mode}.md"] == {"level": "unseen", "name": True, "mode": int(mode, 8)}


def test_folder_without_write_permission_is_marked(paths: dict[str, Any]) -> None:
    assert paths["obey me"] == {"level": "unseen", "name": True, "mode": 0o555}
    assert paths["obey me/page.md"]["level"] == "unseen"


def test_name_of_an_unmarkable_file_is_tainted(paths: dict[str, Any]) -> None:
    assert [path for path in UNMARKABLE if not paths[path]["name"]] == []


def test_branch_chosen_by_a_command_is_marked(paths: dict[str, Any]) -> None:
    assert paths[".git/HEAD"]["level"] == "unseen"


@pytest.mark.parametrize("mode", ["0555", "0311", "0"])
def test_steering_file_is_set_aside_in_a_closed_workspace(hostile: Run, mode: str) -> None:
    # The renamed file's folder is open again, because a command could open it.
    result = hostile(f"cp page.md CLAUDE.md; chmod {mode} .", sets_aside=True)
    assert "CLAUDE.md.set-aside" in result["paths"]
    assert "CLAUDE.md" not in result["paths"]
    assert result["paths"]["CLAUDE.md.set-aside"]["level"] == "unseen"
