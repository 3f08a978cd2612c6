"""Notices about changed files to agents that have read them, with the author of the change."""

import os
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agent import events
from agent.agent import Agent
from agent.providers.scripted import ScriptedProvider, Step
from agent.run.history import JsonlHistory
from agent.security.policy.engine import DefaultPolicy
from agent.subagents.definition import SubagentDefinition
from agent.tools import file_views
from agent.tools.base import CallContext
from agent.tools.file_views import FileViews, stamp
from agent.tools.runner import Permissions
from agent.types import Context, ToolResult
from tests.agent.props import FREE, Handmade, call, calls, results, scripted

TurnChanges = list[tuple[str, str]]


async def turn_changes(agent: Agent, said: str) -> TurnChanges:
    """Return the changed files with their authors, and the outdated views with their agents."""
    changes: TurnChanges = []
    async with aclosing(agent.stream(said, session="s")) as stream:
        async for event in stream:
            match event:
                case events.FileChanged(path, by):
                    changes.append((Path(path).name, by))
                case events.ContextInvalidated(path, agents):
                    changes.append((Path(path).name, "/".join(agents)))
    return changes


def reading(*replies: Step) -> Sequence[Step]:
    return [calls(call("read_file", path="a.txt")), "read", *replies]


async def test_external_changes_between_turns_are_reported(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("old")
    agent, model = scripted(reading("one", "two"), tmp_path)
    assert await turn_changes(agent, "read it") == []
    (tmp_path / "a.txt").write_text("newer")
    assert await turn_changes(agent, "go on") == [("a.txt", "user"), ("a.txt", "main")]
    notes = [
        part.text for part in model.requests[2].messages[-1].content if isinstance(part, Context)
    ]
    assert f"changed since you read or wrote it: {tmp_path / 'a.txt'};" in notes[-1]
    # The notice is not repeated.
    assert await turn_changes(agent, "and on") == []
    notes = [
        part.text for part in model.requests[3].messages[-1].content if isinstance(part, Context)
    ]
    assert "changed" not in " ".join(notes)


async def test_deleted_file_counts_as_changed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    agent, _ = scripted(reading("one"), tmp_path)
    await turn_changes(agent, "read it")
    (tmp_path / "a.txt").unlink()
    assert await turn_changes(agent, "go on") == [("a.txt", "user"), ("a.txt", "main")]


async def test_command_result_lists_changed_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    command = call("exec", "c2", command="echo new > a.txt; echo b > b.txt")
    replies = [calls(call("read_file", path="a.txt")), calls(command), "done"]
    history = JsonlHistory(tmp_path / "chats")
    agent, _ = scripted(replies, tmp_path, history=history, permissions=FREE)
    try:
        assert await turn_changes(agent, "go") == [
            ("b.txt", "tool"),
            ("a.txt", "tool"),
            ("a.txt", "main"),
        ]
    finally:
        await agent.aclose()
    shown = results(await history.load("s"))[1]
    assert "[changed since you read or wrote it:" in shown
    assert "b.txt" not in shown


async def test_own_edits_are_not_reported_as_external(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    edit = call("edit_file", "c2", path="a.txt", old_string="old", new_string="new")
    append = call("append_file", "c3", path="a.txt", content="more")
    write = call("write_file", "c4", path="a.txt", content="all")
    planned = calls(call("read_file", path="a.txt"), edit, append, write)
    agent, _ = scripted([planned, "done"], tmp_path, permissions=FREE)
    assert await turn_changes(agent, "go") == [("a.txt", "tool")] * 3


async def test_changes_by_a_subagent_are_reported_to_its_caller(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    tools = ("read_file", "write_file")
    writer = SubagentDefinition("writer", "Writes.", "You write.", tools=tools)
    sent = call("task", "c2", description="w", prompt="write", subagent_type="writer")
    model = ScriptedProvider(
        [
            calls(call("read_file", path="a.txt")),
            calls(sent),
            calls(
                call("read_file", "c4", path="a.txt"),
                call("write_file", "c3", path="a.txt", content="new"),
            ),
            "written",
            "done",
        ]
    )
    free = Permissions(DefaultPolicy("auto"))
    agent = Agent(model, workspace=tmp_path, subagents=[writer], approve=free)
    assert await turn_changes(agent, "go") == [("a.txt", "agent"), ("a.txt", "main")]
    assert "changed since you read" in model.requests[-1].messages[-1].text


def test_unreported_changes_are_kept(tmp_path: Path) -> None:
    (path := tmp_path / "a").write_text("old")
    seen = FileViews()
    seen.record_view("s", path, stamp(path))
    path.write_text("newer")
    assert len(seen.facts("s")) == 1
    # The turn did not start.
    assert len(seen.facts("s")) == 1
    seen.mark_reported("s")
    assert seen.facts("s") == ()
    assert [view.path for view in seen.take_reported_views("s")] == [path]
    assert seen.take_reported_views("s") == []


def test_conversations_have_separate_views(tmp_path: Path) -> None:
    (path := tmp_path / "a").write_text("old")
    seen = FileViews()
    seen.record_view("s", path, stamp(path))
    path.write_text("newer")
    assert seen.take_stale_views("other") == []
    seen.end("s")
    assert seen.take_stale_views("s") == []


@pytest.mark.parametrize("count", [file_views.MAX_FILES + 1, file_views.MAX_SESSIONS + 1])
def test_only_the_newest_views_are_retained(tmp_path: Path, count: int) -> None:
    (path := tmp_path / "a").write_text("old")
    seen = FileViews()
    for n in range(count):
        (file := tmp_path / str(n)).write_text("")
        seen.record_view("s", file, stamp(file))
        seen.record_view(str(n), path, stamp(path))
        seen.record_view("s", file, stamp(file))
    for n in range(count):
        os.truncate(tmp_path / str(n), 5)
    path.write_text("newer")
    assert len(seen.take_stale_views("s")) == min(count, file_views.MAX_FILES)
    assert sum(len(seen.take_stale_views(str(n))) for n in range(count)) == min(
        count, file_views.MAX_SESSIONS - 1
    )


def test_restored_views_report_changed_files(tmp_path: Path) -> None:
    (path := tmp_path / "a").write_text("old")
    (same := tmp_path / "b").write_text("the same")
    (touched := tmp_path / "c").write_text("as it was")
    before = FileViews()
    for file in (path, same, touched):
        before.record_view("s", file, stamp(file))
    assert before.take_stale_views("s") == []
    text = before.take_stored_form("s")
    assert text is not None
    assert before.take_stored_form("s") is None
    path.write_text("newer")
    os.utime(touched, ns=(1, 1))
    after = FileViews()
    after.restore("s", text)
    assert after.knowledge("s", same) == "current"
    assert [view.path for view in after.take_stale_views("s")] == [path]
    assert after.knowledge("s", touched) == "current"
    assert after.knowledge("s", path) == "old"
    # Reported changes and unchanged files are stored again.
    assert after.take_stored_form("s") is not None
    # The state in memory is newer than the stored one.
    after.restore("s", text)
    assert after.take_stale_views("s") == []


def test_other_content_of_the_same_size_counts_as_changed(tmp_path: Path) -> None:
    (path := tmp_path / "a").write_text("old")
    views = FileViews()
    views.record_view("s", path, stamp(path))
    assert views.take_stale_views("s") == []
    path.write_text("new")
    os.utime(path, ns=(1, 1))
    assert [view.path for view in views.take_stale_views("s")] == [path]
    # The change was reported, so the first version is no longer known.
    path.write_text("old")
    os.utime(path, ns=(2, 2))
    assert [view.path for view in views.take_stale_views("s")] == [path]


def test_special_file_is_compared_by_its_times(tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "a")
    views = FileViews()
    views.record_view("s", path, stamp(path))
    assert views.take_stale_views("s") == []
    os.utime(path, ns=(1, 1))
    assert [view.path for view in views.take_stale_views("s")] == [path]


async def test_views_survive_a_restart(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    history = JsonlHistory(tmp_path / ".history")
    agent, _ = scripted(reading(), tmp_path, history=history)
    assert await turn_changes(agent, "read it") == []
    (tmp_path / "a.txt").write_text("newer")
    again, model = scripted(["fine", "yes"], tmp_path, history=history)
    assert await turn_changes(again, "go on") == [("a.txt", "user"), ("a.txt", "main")]
    assert "changed since you read" in str(model.requests[0].messages[-1].content)
    third, model = scripted(["yes"], tmp_path, history=history)
    assert await turn_changes(third, "and on") == []


async def test_subagent_is_notified_only_of_files_it_has_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    (tmp_path / "b.txt").write_text("old")

    async def overwrite(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        (tmp_path / "a.txt").write_text("newer")
        (tmp_path / "b.txt").write_text("newer")
        return ToolResult("fine")

    reader = SubagentDefinition("reader", "Reads.", "You read.", tools=("read_file", "wait"))
    model = ScriptedProvider(
        [
            calls(call("read_file", path="b.txt")),
            calls(call("task", "c2", description="r", prompt="read", subagent_type="reader")),
            calls(call("read_file", "c3", path="a.txt")),
            calls(call("wait", "c4")),
            "read",
            "done",
        ]
    )
    agent = Agent(
        model,
        workspace=tmp_path,
        subagents=[reader],
        tools=[Handmade("wait", overwrite)],
        approve=Permissions(DefaultPolicy("auto")),
    )
    invalidated: list[tuple[str, Sequence[str]]] = []
    async with aclosing(agent.stream("go", session="s")) as stream:
        async for event in stream:
            match event:
                case events.FromAgent(event={"type": "context_invalidated", **named}):
                    invalidated.append((Path(named["path"]).name, tuple(named["agents"])))
                case events.ContextInvalidated(path, agents):
                    invalidated.append((Path(path).name, agents))
    assert invalidated == [("a.txt", ("sub-agent reader (1)",)), ("b.txt", ("main",))]
    assert "a.txt; read it again" in model.requests[4].messages[-1].text
