"""Sub-agents in git worktrees: parallel, in the background, after a crash, in a chat."""

import re
from pathlib import Path

import pytest

from agent.providers.scripted import EchoProvider
from gateway.core.messages import Sender
from tests.agent.worktrees.repositories import create_repository, git
from tests.gateway.parts import (
    Parts,
    accept_messages,
    at_work,
    chat_message,
    console_message,
    opened,
    running,
    wait_until,
)
from tests.gateway.turns.agents.subagent_turns import (
    peoples_sessions,
    states,
    task,
    tool,
    wait_for_answers,
)

pytestmark = pytest.mark.programs("git")
BRANCH = re.compile(r"on the branch (kore/sub-[\w-]+)")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Return the workspace of the conversations, as a repository."""
    return create_repository(tmp_path.resolve() / "workspace")


def write(path: str, content: str = "new = 1\n") -> str:
    return tool("write_file", path=path, content=content)


def branches(repository: Path) -> list[str]:
    return git(repository, "branch", "--format=%(refname:short)", "--list", "kore/*").split()


async def texts(parts: Parts, role: str) -> str:
    """Return the texts of a role in the conversations of people."""
    contents: list[str] = []
    for session in await peoples_sessions(parts):
        messages = await parts.service.load_messages(session)
        contents += [str(message.content) for message in messages if message.role == role]
    return "\n".join(contents)


async def test_parallel_subagents_work_in_a_worktree_each(tmp_path: Path, repository: Path) -> None:
    prompt = "\n".join(task(write("same.py", name)) for name in ("one", "two"))
    async with running(tmp_path, EchoProvider()) as parts:
        await parts.bus.submit(console_message(prompt, options={"auto": True}))
        await wait_for_answers(parts)
        results = await texts(parts, "tool")
    assert sorted(BRANCH.findall(results)) == branches(repository)
    contents = {git(repository, "show", f"{name}:same.py") for name in branches(repository)}
    assert contents == {"one", "two"}
    assert not (repository / "same.py").exists()


async def test_background_subagent_reports_its_branch(tmp_path: Path, repository: Path) -> None:
    prompt = task(write("new.py"), background=True)
    async with running(tmp_path, EchoProvider()) as parts:
        await parts.bus.submit(console_message(prompt, options={"auto": True}))
        await wait_for_answers(parts, 2)
        assert BRANCH.findall(await texts(parts, "user")) == branches(repository)
    assert len(branches(repository)) == 1


async def test_resumed_subagent_continues_in_its_worktree(tmp_path: Path, repository: Path) -> None:
    async with running(tmp_path, EchoProvider()) as parts:
        for count, prompt in enumerate(
            (task(write("one.py"), isolation="worktree"), task(write("two.py"), resume="1")), 1
        ):
            await parts.bus.submit(console_message(prompt, options={"auto": True}))
            await wait_for_answers(parts, count)
    (branch,) = branches(repository)
    files = git(repository, "ls-tree", "--name-only", branch).split()
    assert files == ["main.py", "one.py", "two.py"]


async def test_resumed_subagent_gets_a_new_folder_after_its_merge(
    tmp_path: Path, repository: Path
) -> None:
    async with running(tmp_path, EchoProvider()) as parts:
        await parts.bus.submit(
            console_message(task("hello", isolation="worktree"), options={"auto": True})
        )
        await wait_for_answers(parts)
        assert branches(repository) == []
        again = task(write("two.py"), resume="1")
        await parts.bus.submit(console_message(again, options={"auto": True}))
        await wait_for_answers(parts, 2)
        assert await states(parts) == ["done", "done"]
    (branch,) = branches(repository)
    assert "two.py" in git(repository, "ls-tree", "--name-only", branch)


async def test_worktree_is_created_once_although_the_process_stops(
    tmp_path: Path, repository: Path
) -> None:
    prompt = task(tool("exec", command="touch new.py"), isolation="worktree")
    async with opened(tmp_path, EchoProvider()) as parts:
        async with at_work(parts):
            await parts.bus.submit(console_message(prompt))
            # The sub-agent asks for an approval, and the process stops.
            await parts.until_stored("approval")
        folders = list((repository.parent / "workspace.worktrees").iterdir())
        assert len(folders) == 1
    async with running(tmp_path, EchoProvider()) as parts:
        ((nonce,),) = await parts.stored("approval", "nonce")
        assert await parts.service.answer_approval(nonce, "once", "cli:0")
        await wait_for_answers(parts)
        assert BRANCH.findall(await texts(parts, "tool")) == branches(repository)
    assert list((repository.parent / "workspace.worktrees").iterdir()) == folders


async def test_worktree_of_a_subagent_that_never_starts_is_freed(
    tmp_path: Path, repository: Path
) -> None:
    async with running(tmp_path, EchoProvider()) as parts:
        asking = tool("exec", command="touch new.py")
        begin = task(asking, isolation="worktree", background=True)
        await parts.bus.submit(console_message(begin))
        await parts.until_stored("approval")
        await wait_for_answers(parts)
        # It waits behind the first one, in the same worktree.
        await parts.bus.submit(console_message(task("hello", resume="1")))
        await parts.until_stored("task", id=2)
        await parts.bus.submit(console_message("/stop"))
        await parts.until_stored("task", id=1, state="stopped")
        await parts.until_stored("task", id=2, state="stopped")
        await wait_until(lambda: parts.bus.lanes == 0)
        assert "locked" in git(repository, "worktree", "list", "--porcelain")
        again = task("hello", isolation="worktree")
        await parts.bus.submit(console_message(again, options={"auto": True}))
        await parts.until_stored("task", id=3, state="done")
    assert branches(repository) == []


async def test_subagent_of_a_chat_works_in_its_worktree(tmp_path: Path, repository: Path) -> None:
    prompt = task(write("new.py"), isolation="worktree")
    async with running(tmp_path, EchoProvider(), owner="chat:7") as parts:
        await parts.bus.submit(chat_message("/auto"))
        await accept_messages(parts, chat_message(prompt))
        await parts.platform.until(lambda: any("worktree" in t for t in parts.platform.texts("1")))
    (branch,) = branches(repository)
    assert "new.py" in git(repository, "ls-tree", "--name-only", branch)
    assert not (repository / "new.py").exists()


async def test_worktrees_are_only_for_the_owner(tmp_path: Path, repository: Path) -> None:
    prompt = task(write("new.py"), isolation="worktree")
    async with running(tmp_path, EchoProvider(), owner="chat:7") as parts:
        await accept_messages(parts, chat_message(prompt, "8", sender=Sender("8", "Bob")))
        await parts.platform.until(lambda: bool(parts.platform.texts("8")))
    assert branches(repository) == []
