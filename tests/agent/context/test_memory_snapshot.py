"""Memory snapshots: a session of a library user uses the memory from its start."""

from pathlib import Path

import pytest

from agent.context.memory_snapshot import MemorySnapshot, SnapshotStore
from agent.errors import KoreError
from agent.run.history import History, JsonlHistory, MemoryHistory
from agent.types import Message, ToolCall, assistant, user
from tests.agent.props import scripted


@pytest.fixture(params=["memory", "jsonl"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> History:
    return MemoryHistory() if request.param == "memory" else JsonlHistory(tmp_path / "sessions")


def write_memory(folder: Path, *facts: str) -> Path:
    file = folder / "memory" / "MEMORY.md"
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"- 2026-01-01: {fact}\n" for fact in facts))
    return file


async def test_new_memory_does_not_change_the_prompt_of_the_session(
    history: History, tmp_path: Path
) -> None:
    file = write_memory(tmp_path, "likes tea")
    call = ToolCall("c", "remember", {"text": "has a dog"}, '{"text": "has a dog"}')
    replies = [assistant("", (call,)), "Noted.", "Yes.", "Both."]
    agent, model = scripted(replies, tmp_path, history=history)
    await agent.run("I have a dog.", session="s")
    await agent.run("And?", session="s")
    assert "has a dog" in file.read_text()
    first, *others = [request.system for request in model.requests]
    assert "likes tea" in first
    assert others == [first, first]
    # A later session reads the new memory.
    await agent.run("What do you know?", session="t")
    assert "has a dog" in model.requests[-1].system


async def test_snapshot_is_used_by_a_new_process(tmp_path: Path) -> None:
    write_memory(tmp_path, "likes tea")
    agent, model = scripted(["a"], tmp_path, history=JsonlHistory(tmp_path / "sessions"))
    await agent.run("1", session="s")
    write_memory(tmp_path, "likes coffee")
    history = JsonlHistory(tmp_path / "sessions")
    agent, later = scripted(["b"], tmp_path, history=history)
    await agent.run("2", session="s")
    assert later.requests[0].system == model.requests[0].system
    assert [message.text for message in await history.load("s")][1::2] == ["a", "b"]


async def test_empty_memory_is_also_snapshotted(history: History, tmp_path: Path) -> None:
    agent, model = scripted(["a", "b"], tmp_path, history=history)
    await agent.run("1", session="s")
    write_memory(tmp_path, "likes tea")
    await agent.run("2", session="s")
    assert model.requests[0].system == model.requests[1].system


async def test_snapshot_is_renewed_for_another_workspace_or_summary(
    history: History, tmp_path: Path
) -> None:
    assert isinstance(history, SnapshotStore)
    file = write_memory(tmp_path, "likes tea")
    stored = MemorySnapshot(str(file), "- 2025-01-01: likes water\n")
    for memory, shown in (
        (stored, "likes water"),
        (MemorySnapshot("/elsewhere/MEMORY.md", stored.text), "likes tea"),
        # A summary has replaced the messages up to the fourth since then.
        (MemorySnapshot(str(file), stored.text, upto=4), "likes tea"),
    ):
        agent, model = scripted(["a"], tmp_path, history=history)
        await history.append("s", [user("x"), assistant("y")])
        await history.set_memory("s", memory)
        await agent.run("1", session="s")
        assert shown in model.requests[0].system
    assert (await history.memory("s") or stored).upto == 0


async def test_history_without_snapshots_reads_the_file(tmp_path: Path) -> None:
    class Plain:
        def __init__(self) -> None:
            self.messages: list[Message] = []

        async def load(self, session: str) -> list[Message]:
            return list(self.messages)

        async def append(self, session: str, messages: list[Message]) -> None:
            self.messages += messages

    plain = Plain()
    assert not isinstance(plain, SnapshotStore)
    agent, model = scripted(["a", "b"], tmp_path, history=plain)  # type: ignore[arg-type]
    await agent.run("1", session="s")
    write_memory(tmp_path, "likes tea")
    await agent.run("2", session="s")
    assert "likes tea" in model.requests[1].system


async def test_damaged_line_is_reported(tmp_path: Path) -> None:
    history = JsonlHistory(tmp_path)
    await history.append("s", [user("a")])
    with (tmp_path / "s.jsonl").open("a") as file:
        file.write('{"_type":"memory","text":1}\n')
    with pytest.raises(KoreError, match="memory line is damaged"):
        await history.memory("s")
