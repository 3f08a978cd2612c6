"""`kore agent --worktree` for one turn: folder, git in the sandbox, instructions and errors."""

import subprocess
from pathlib import Path

import pytest

from tests.agent.worktrees.repositories import commit_all, create_repository, git
from tests.fakes.model import ModelServer
from tests.fakes.model_script import Call, ReplyScript
from tests.gateway.cli.chat.long_task_scene import Place
from tests.gateway.cli.chat.starting import run, trust

pytestmark = pytest.mark.programs("git")
COMMAND = (
    "pwd && echo 'value = 2' >main.py && git -c user.name=A -c user.email=a@b commit -qam second "
    "&& git log --oneline | wc -l"
)


@pytest.fixture
def repository(place: Place) -> Path:
    folder = create_repository(place.work / "project")
    (folder / "AGENTS.md").write_text("Use tabs everywhere.\n")
    commit_all(folder, "instructions")
    return folder


async def test_turn_works_and_commits_in_the_worktree(
    place: Place, model_server: ModelServer, repository: Path
) -> None:
    trust(place, repository)
    model_server.script(ReplyScript(tool_calls=(Call("exec", {"command": COMMAND}),)), "done")
    code, err = await run(place, repository, "--worktree", "fix")
    assert code == 0, err
    folder = repository.parent / "project.worktrees" / "fix"
    messages = model_server.requests[-1].body["messages"]
    assert "Use tabs everywhere." in str(messages[0]["content"])
    (result,) = [str(message["content"]) for message in messages if message["role"] == "tool"]
    assert result.startswith(f"{folder}\n3"), result
    assert (repository / "main.py").read_text() == "value = 1\n"
    assert git(repository, "log", "--format=%s", "-1", "kore/fix").strip() == "second"


@pytest.mark.parametrize("problem", ["name", "folder"])
async def test_problems_are_named_before_anything_starts(
    place: Place, model_server: ModelServer, repository: Path, problem: str
) -> None:
    trust(place, repository)
    folder, name = (repository, "a/b") if problem == "name" else (place.home, "fix")
    code, err = await run(place, folder, "--worktree", name)
    assert code == 2 if problem == "folder" else code != 0
    assert "is not a" in err
    assert "Traceback" not in err
    assert not model_server.requests
    listed = subprocess.run(
        ["git", "worktree", "list"], cwd=repository, check=True, capture_output=True
    )
    assert listed.stdout.count(b"\n") == 1
