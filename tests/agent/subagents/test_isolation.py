"""Sub-agents of the library in git worktrees."""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.errors import Rejected
from agent.providers.base import ModelRequest
from agent.providers.scripted import EchoProvider, ScriptedProvider
from agent.settings import AgentSettings
from agent.subagents.definition import SubagentDefinition, read_definition
from agent.subagents.isolation import worktree_name
from agent.types import Message, ToolCall, assistant
from tests.agent.worktrees.repositories import IDENTITY, commit_all, create_repository, git

pytestmark = pytest.mark.programs("git")
BRANCH = re.compile(r"on the branch (kore/sub-[\w-]+)")


def task(prompt: str, agent: str = "general", **more: Any) -> str:
    args = {"description": "work", "prompt": prompt, "subagent_type": agent, **more}
    return f"!tool task {json.dumps(args)}"


def call(name: str, **args: Any) -> Message:
    return assistant("", (ToolCall(name, name, args, json.dumps(args)),))


def write(path: str, content: str = "new = 1\n") -> str:
    return f"!tool write_file {json.dumps({'path': path, 'content': content})}"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return create_repository(tmp_path.resolve() / "project")


async def run(agent: Agent, *prompts: str) -> list[str]:
    """Return the results of the tools of each turn; the turns belong to one session."""
    async with agent, asyncio.timeout(60):
        turns = [await agent.run(prompt, session="s") for prompt in prompts]
    return [
        "\n".join(message.text for message in turn.messages if message.role == "tool")
        for turn in turns
    ]


def agent_in(folder: Path, *definitions: SubagentDefinition, project: bool = True) -> Agent:
    settings = AgentSettings(project=project)
    return Agent(
        EchoProvider(), workspace=folder, settings=settings, subagents=definitions, full_access=True
    )


def branches(repository: Path) -> list[str]:
    return git(repository, "branch", "--format=%(refname:short)", "--list", "kore/*").split()


def worktrees(repository: Path) -> list[Path]:
    folder = repository.parent / "project.worktrees"
    return sorted(folder.iterdir()) if folder.exists() else []


async def test_changes_are_committed_on_a_branch_and_named(repository: Path) -> None:
    (text,) = await run(agent_in(repository), task(write("new.py"), isolation="worktree"))
    (branch,) = branches(repository)
    assert f"`git merge {branch}`" in text
    assert "Files: new.py" in text
    assert not (repository / "new.py").exists()
    git(repository, "merge", "-q", branch)
    assert (repository / "new.py").read_text() == "new = 1\n"


async def test_worktree_without_changes_is_removed(repository: Path) -> None:
    (text,) = await run(agent_in(repository), task("hello", isolation="worktree"))
    assert "changed no files" in text
    assert branches(repository) == []
    assert worktrees(repository) == []


async def test_parallel_subagents_get_one_each(repository: Path) -> None:
    prompt = "\n".join(task(write("same.py", name)) for name in ("one", "two"))
    (text,) = await run(agent_in(repository), prompt)
    assert sorted(BRANCH.findall(text)) == branches(repository)
    contents = {git(repository, "show", f"{name}:same.py") for name in branches(repository)}
    assert contents == {"one", "two"}
    assert not (repository / "same.py").exists()


@pytest.mark.parametrize("case", ["single", "dirty", "reading", "none", "no project"])
async def test_other_subagents_share_the_folder(repository: Path, case: str) -> None:
    agent, count = agent_in(repository, project=case != "no project"), 2
    name, more = "general", {}
    match case:
        case "single":
            count = 1
        case "dirty":
            (repository / "draft.py").write_text("")
        case "reading":
            name = "explore"
        case "none":
            more = {"isolation": "none"}
    await run(agent, "\n".join(task(write(f"{n}.py"), name, **more) for n in range(count)))
    assert branches(repository) == []
    assert (repository / "0.py").exists() == (case != "reading")


async def test_requested_worktree_starts_from_the_last_commit_and_says_so(
    repository: Path,
) -> None:
    (repository / "main.py").write_text("value = 2\n")
    read = '!tool read_file {"path": "main.py"}'
    agent = agent_in(repository)
    (text,) = await run(agent, task(read, isolation="worktree"))
    assert "value = 1" in text
    assert (repository / "main.py").read_text() == "value = 2\n"


async def test_worktree_outside_of_a_repository_is_refused(tmp_path: Path) -> None:
    (text,) = await run(agent_in(tmp_path), task(write("new.py"), isolation="worktree"))
    assert "No worktree for the sub-agent" in text
    assert not (tmp_path / "new.py").exists()


async def test_definition_may_ask_for_a_worktree(repository: Path) -> None:
    definition = read_definition(b"---\nisolation: worktree\n---\nWrite.", "writer", "x.md")
    await run(agent_in(repository, definition), task(write("new.py"), "writer"))
    assert len(branches(repository)) == 1


def test_unknown_isolation_is_remarked() -> None:
    definition = read_definition(b"---\nisolation: remote\n---\nWrite.", "writer", "x.md")
    assert definition.isolation is None
    assert any("isolation" in remark for remark in definition.remarks)


async def test_resumed_subagent_continues_in_its_worktree(repository: Path) -> None:
    prompts = (
        task(write("one.py"), isolation="worktree"),
        task(write("two.py"), resume="1"),
    )
    first, second = await run(agent_in(repository), *prompts)
    (branch,) = branches(repository)
    assert branch in first
    assert branch in second
    files = git(repository, "ls-tree", "--name-only", branch).split()
    assert files == ["main.py", "one.py", "two.py"]


async def test_merged_worktree_is_removed_before_the_next_one(repository: Path) -> None:
    agent = agent_in(repository)
    async with agent, asyncio.timeout(60):
        await agent.run(task(write("one.py"), isolation="worktree"))
        (branch,) = branches(repository)
        git(repository, "merge", "-q", branch)
        await agent.run(task(write("two.py"), isolation="worktree"))
    (other,) = branches(repository)
    assert other != branch
    assert len(worktrees(repository)) == 1


async def test_worktree_with_a_merge_in_progress_is_kept_and_named(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "other")
    (repository / "main.py").write_text("value = 2\n")
    commit_all(repository, "two")
    git(repository, "checkout", "-q", "main")
    (repository / "main.py").write_text("value = 3\n")
    commit_all(repository, "three")
    command = json.dumps({"command": f"git {' '.join(IDENTITY)} merge other"})
    (text,) = await run(agent_in(repository), task(f"!tool exec {command}", isolation="worktree"))
    assert "is kept as it is" in text
    assert len(worktrees(repository)) == 1


async def test_changes_of_a_failed_subagent_are_committed_and_named(repository: Path) -> None:
    order = {"description": "work", "prompt": "write", "isolation": "worktree"}
    model = ScriptedProvider(
        [
            call("task", **order),
            call("write_file", path="new.py", content="new = 1\n"),
            Rejected("out of service"),
            "The sub-agent has failed.",
        ]
    )
    (text,) = await run(Agent(model, workspace=repository, full_access=True), "go")
    (branch,) = branches(repository)
    assert "out of service" in text
    assert f"`git merge {branch}`" in text
    assert "new.py" in git(repository, "ls-tree", "--name-only", branch)
    assert "locked" not in git(repository, "worktree", "list", "--porcelain")


async def test_worktree_of_a_cancelled_subagent_is_unlocked(repository: Path) -> None:
    order = {"description": "work", "prompt": "write", "isolation": "worktree"}
    begun = asyncio.Event()

    def wait(request: ModelRequest) -> Message:
        begun.set()
        return call("exec", command="sleep 600")

    model = ScriptedProvider([call("task", **order), wait])
    agent = Agent(model, workspace=repository, full_access=True)
    async with agent, asyncio.timeout(60):
        turn = asyncio.create_task(agent.run("go"))
        await begun.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
    assert "locked" not in git(repository, "worktree", "list", "--porcelain")


async def test_worktrees_of_a_bare_repository(repository: Path, tmp_path: Path) -> None:
    store, side = tmp_path.resolve() / "bare.git", tmp_path.resolve() / "side"
    git(repository, "clone", "-q", "--bare", str(repository), str(store))
    git(store, "worktree", "add", "-q", str(side), "main")
    prompts = [task(text, isolation="worktree") for text in (write("new.py"), "hello")]
    first, second = await run(agent_in(side), *prompts)
    assert "new.py" in git(side, "ls-tree", "--name-only", *BRANCH.findall(first))
    assert BRANCH.findall(second) == []
    assert git(side, "worktree", "list").count("\n") == 3


async def test_lock_of_a_process_that_has_ended_is_removed(repository: Path) -> None:
    program = (
        "from pathlib import Path\n"
        "from agent.security.sandbox.orphan_processes import process_mark\n"
        "from tests.agent.worktrees.repositories import worktrees_of\n"
        f"worktrees = worktrees_of(Path({str(repository)!r}))\n"
        "mark, = process_mark().values()\n"
        "worktrees.open('sub-killed', f'process {mark}')\n"
        "worktrees.open('sub-kept')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    git(repository, "worktree", "lock", "--reason", "mine", "../project.worktrees/sub-kept")
    assert "killed" in git(repository, "worktree", "list")
    await run(agent_in(repository), task("hello", isolation="worktree"))
    assert [folder.name for folder in worktrees(repository)] == ["sub-kept"]


def test_names_are_plain_and_repeatable() -> None:
    name = worktree_name("Überprüfer der Welt/..", "s", 1)
    assert re.fullmatch(r"sub-[A-Za-z0-9-]+", name)
    assert name == worktree_name("Überprüfer der Welt/..", "s", 1)
    assert name != worktree_name("Überprüfer der Welt/..", "s", 2)
