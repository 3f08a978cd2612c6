"""Stored summaries in conversations of library users."""

from pathlib import Path

import pytest

from agent.context.compaction.compactor import CompactionResult, SplitPoint
from agent.context.compaction.marker import (
    CompactionMarker,
    MarkerStore,
    mark_from_json,
    mark_to_json,
)
from agent.context.compaction.summarizer import Summary
from agent.context.edited_files import AttachedFile
from agent.errors import KoreError, Rejected
from agent.providers.base import ModelRequest
from agent.run.history import History, JsonlHistory, MemoryHistory
from agent.types import Message, Text, ToolCall, assistant, user
from tests.agent.props import is_summary_request, scripted

TOLD = Summary(
    "They talked.", ("the first",), "☐ it", frozenset({"private"}), (AttachedFile("a", "b"),)
)


def reply(request: ModelRequest) -> str | Exception:
    if is_summary_request(request):
        return "They talked about numbers."
    return "fine"


def talk(rounds: int) -> list[Message]:
    return [m for n in range(rounds) for m in (user(f"q{n} " * 900), assistant("b" * 900))]


async def test_overflowing_session_is_summarised_once(history: History, tmp_path: Path) -> None:
    await history.append("s", talk(300))
    agent, model = scripted([reply] * 9, tmp_path, history=history, summaries=True)
    assert (await agent.run("and now?", session="s")).text == "fine"
    assert (await agent.run("go on", session="s")).text == "fine"
    requests = [request for request in model.requests if is_summary_request(request)]
    assert len(requests) == 1
    first, second = model.requests[1:]
    assert second.messages[: len(first.messages)] == first.messages
    assert "They talked about numbers." in str(first.messages[0].content[0])
    assert len(await history.load("s")) == 604, "nothing is deleted"


async def test_history_without_marker_support_works(tmp_path: Path) -> None:
    class Plain:
        def __init__(self) -> None:
            self.inner = MemoryHistory()

        async def load(self, session: str) -> list[Message]:
            return await self.inner.load(session)

        async def append(self, session: str, messages: list[Message]) -> None:
            await self.inner.append(session, messages)

    plain = Plain()
    assert not isinstance(plain, MarkerStore)
    await plain.append("s", talk(300))
    agent, _ = scripted([reply] * 9, tmp_path, history=plain, summaries=True)  # type: ignore[arg-type]
    assert (await agent.run("and now?", session="s")).text == "fine"


async def test_failed_summary_is_not_an_error(history: History, tmp_path: Path) -> None:
    await history.append("s", talk(300))
    replies = [Rejected("no"), "fine"]
    agent, _ = scripted(replies, tmp_path, history=history, summaries=True)
    assert (await agent.run("and now?", session="s")).text == "fine"


async def test_marker_is_stored(history: History) -> None:
    assert isinstance(history, MarkerStore)
    assert await history.mark("s") == CompactionMarker()
    await history.append("s", [user("a")])
    await history.set_mark("s", CompactionMarker(1, None, 1, TOLD))
    await history.append("s", [user("b")])
    assert await history.mark("s") == CompactionMarker(1, None, 1, TOLD)
    assert [message.text for message in await history.load("s")] == ["a", "b"]


async def test_damaged_summary_is_reported(tmp_path: Path) -> None:
    history = JsonlHistory(tmp_path)
    await history.append("s", [user("a")])
    with (tmp_path / "s.jsonl").open("a") as file:
        file.write('{"_type":"summary","upto":1}\n')
    with pytest.raises(KoreError, match="damaged"):
        await history.mark("s")


def test_marker_survives_json() -> None:
    for mark in (CompactionMarker(), CompactionMarker(5, 2, 9, TOLD)):
        assert mark_from_json(mark_to_json(mark)) == mark


def test_repeated_cuts_count_from_the_beginning() -> None:
    messages = [user("old"), assistant("old"), user("the task")]
    for n in range(10):
        call = ToolCall(f"c{n}", "look", {}, "{}")
        messages += [assistant("", (call,)), Message("tool", (Text("x" * 900),), (), call.id)]
    mark, shown = CompactionMarker(), CompactionMarker().conversation(messages)
    for shorter in (
        CompactionResult(8, None, None, 9, 8),
        CompactionResult(0, SplitPoint(13, 2), TOLD, 9, 8),
        CompactionResult(0, SplitPoint(5, 0), TOLD, 8, 7),
        CompactionResult(3, None, TOLD, 7, 6),
    ):
        shown.messages[:] = shorter.apply(shown.messages)
        mark = mark.move_by(shorter)
        assert mark.conversation(messages).messages == shown.messages
    assert shown.messages[0].text == "the task"
