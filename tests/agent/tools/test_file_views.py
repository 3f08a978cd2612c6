"""Who has seen a file is told once that it is no longer so: by whom it was changed, and when."""

import os
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from agent import events
from agent.agent import Agent
from agent.history import JsonlHistory
from agent.providers.scripted import ScriptedProvider, Step
from agent.security.policy.engine import DefaultPolicy
from agent.subagents.definition import SubagentDefinition
from agent.tools import file_views
from agent.tools.file_views import FileViews, stamp
from agent.tools.runner import Permissions
from agent.types import Context
from tests.agent.props import FREE, call, calls, results, scripted

TurnChanges = list[tuple[str, str]]


async def turn_changes(agent: Agent, said: str) -> TurnChanges:
    """Which files have changed in a turn and by whom, and whose views are no longer right."""
    found: TurnChanges = []
    async with aclosing(agent.stream(said, session="s")) as stream:
        async for event in stream:
            match event:
                case events.FileChanged(path, by):
                    found.append((Path(path).name, by))
                case events.ContextInvalidated(path, agents):
                    found.append((Path(path).name, "/".join(agents)))
    return found


def reading(*replies: Step) -> Sequence[Step]:
    return [calls(call("read_file", path="a.txt")), "read", *replies]


async def test_what_a_person_changes_between_turns_is_told_to_the_model_and_to_watchers(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.txt").write_text("old")
    agent, model = scripted(reading("one", "two"), tmp_path)
    assert await turn_changes(agent, "read it") == []
    (tmp_path / "a.txt").write_text("newer")
    assert await turn_changes(agent, "go on") == [("a.txt", "user"), ("a.txt", "main")]
    (note,) = (p.text for p in model.requests[2].messages[-1].content if isinstance(p, Context))
    assert f"changed since you read or wrote it: {tmp_path / 'a.txt'};" in note
    # Once is enough.
    assert await turn_changes(agent, "and on") == []
    (note,) = (p.text for p in model.requests[3].messages[-1].content if isinstance(p, Context))
    assert "changed" not in note


async def test_a_file_that_is_gone_has_changed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    agent, _ = scripted(reading("one"), tmp_path)
    await turn_changes(agent, "read it")
    (tmp_path / "a.txt").unlink()
    assert await turn_changes(agent, "go on") == [("a.txt", "user"), ("a.txt", "main")]


async def test_what_a_command_changes_is_told_with_its_result(tmp_path: Path) -> None:
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


async def test_own_edits_are_no_news(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    edit = call("edit_file", "c2", path="a.txt", old_string="old", new_string="new")
    append = call("append_file", "c3", path="a.txt", content="more")
    write = call("write_file", "c4", path="a.txt", content="all")
    planned = calls(call("read_file", path="a.txt"), edit, append, write)
    agent, _ = scripted([planned, "done"], tmp_path, permissions=FREE)
    assert await turn_changes(agent, "go") == [("a.txt", "tool")] * 3


async def test_what_a_sub_agent_changes_is_told_to_whoever_sent_it_out(tmp_path: Path) -> None:
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


def test_what_was_not_said_yet_stays_to_be_said(tmp_path: Path) -> None:
    (path := tmp_path / "a").write_text("old")
    seen = FileViews()
    seen.record_view("s", path, stamp(path))
    path.write_text("newer")
    assert len(seen.facts("s")) == 1
    # The turn did not begin.
    assert len(seen.facts("s")) == 1
    seen.mark_reported("s")
    assert seen.facts("s") == ()
    assert [one.path for one in seen.take_reported_views("s")] == [path]
    assert seen.take_reported_views("s") == []


def test_conversations_know_nothing_of_each_others_files(tmp_path: Path) -> None:
    (path := tmp_path / "a").write_text("old")
    seen = FileViews()
    seen.record_view("s", path, stamp(path))
    path.write_text("newer")
    assert seen.take_stale_views("other") == []
    seen.end("s")
    assert seen.take_stale_views("s") == []


@pytest.mark.parametrize("count", [file_views.FILES + 1, file_views.SESSIONS + 1])
def test_only_the_newest_are_kept(tmp_path: Path, count: int) -> None:
    (path := tmp_path / "a").write_text("old")
    seen = FileViews()
    for n in range(count):
        (each := tmp_path / str(n)).write_text("")
        seen.record_view("s", each, stamp(each))
        seen.record_view(str(n), path, stamp(path))
        seen.record_view("s", each, stamp(each))
    for n in range(count):
        os.truncate(tmp_path / str(n), 5)
    path.write_text("newer")
    assert len(seen.take_stale_views("s")) == min(count, file_views.FILES)
    assert sum(len(seen.take_stale_views(str(n))) for n in range(count)) == min(
        count, file_views.SESSIONS - 1
    )
