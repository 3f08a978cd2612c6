"""Folders outside the workspace in the library: `add_dirs`, and answers for a session."""

from pathlib import Path

import pytest

from agent.agent import Agent
from agent.approvals import ApprovalRequest
from agent.providers.scripted import ScriptedProvider
from agent.types import Message, ToolCall, assistant


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "a.txt").write_text("of the other folder\n")
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def read(outside: Path) -> Message:
    return assistant("", (ToolCall("1", "read_file", {"path": str(outside / "a.txt")}, "{}"),))


def tool_texts(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages if message.role == "tool"]


async def test_added_folder_is_read_without_a_question(workspace: Path, outside: Path) -> None:
    model = ScriptedProvider([read(outside), "done"])
    agent = Agent(model, workspace=workspace, add_dirs=[outside])
    result = await agent.run("go")
    assert "of the other folder" in tool_texts(result.messages)[0]


async def test_session_answer_covers_the_folder_in_that_session(
    workspace: Path, outside: Path
) -> None:
    questions: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> str:
        questions.append(request)
        return "session"

    steps = [read(outside), "one", read(outside), "two", read(outside), "three"]
    agent = Agent(ScriptedProvider(steps), workspace=workspace, approve=approve)  # type: ignore[arg-type]
    for session in ("a", "a", "b"):
        result = await agent.run("go", session=session)
        assert "of the other folder" in tool_texts(result.messages)[0]
    assert len(questions) == 2
