"""Execution of the calls of one reply: concurrent reads, sequential writes, ordered results."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent import events
from agent.prompts import load_prompt
from agent.tools.base import CallContext
from agent.turn.tool_executor import MAX_PARALLEL_READS, MAX_UNKNOWN_CALLS
from agent.types import ToolCall, ToolResult
from tests.agent.props import Handmade, answers, call, calls, results, run_turn, scripted, task


class Meeting:
    """Reads that return only when all of them run at the same time."""

    def __init__(self, size: int) -> None:
        self._barrier = asyncio.Barrier(size)

    async def __call__(self, args: Mapping[str, Any], context: CallContext) -> ToolResult:
        await self._barrier.wait()
        return ToolResult(context.call.id)


class Diary:
    """Records the start and end of calls and yields to other tasks in between."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    async def __call__(self, args: Mapping[str, Any], context: CallContext) -> ToolResult:
        self.entries.append(f"+{context.call.id}")
        for _ in range(5):
            await asyncio.sleep(0)
        self.entries.append(f"-{context.call.id}")
        return ToolResult(context.call.id)


async def test_reads_run_concurrently(tmp_path: Path) -> None:
    planned = [call("meet", f"c{n}") for n in range(3)]
    agent, _ = scripted([calls(*planned), "met"], tmp_path, Handmade("meet", Meeting(3)))
    _, result = await run_turn(agent, task(agent))
    assert results(result.messages) == ["c0", "c1", "c2"]


async def test_concurrent_reads_are_limited(tmp_path: Path) -> None:
    together: list[int] = []
    running: set[str] = set()

    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        running.add(context.call.id)
        await asyncio.sleep(0)
        together.append(len(running))
        await asyncio.sleep(0)
        running.discard(context.call.id)
        return ToolResult("")

    planned = [call("look", f"c{n}", n=n) for n in range(2 * MAX_PARALLEL_READS + 1)]
    agent, _ = scripted([calls(*planned), "done"], tmp_path, Handmade("look", body))
    _, result = await run_turn(agent, task(agent))
    assert max(together) == MAX_PARALLEL_READS
    assert len(results(result.messages)) == len(planned)


async def test_writes_run_alone_and_in_order(tmp_path: Path) -> None:
    diary = Diary()
    write, read = Handmade("write", diary, "idempotent"), Handmade("read", diary)
    act = Handmade("act", diary, "unsafe")
    planned = [
        call("write", "w1"),
        call("read", "r1"),
        call("act", "a1"),
        call("write", "w2"),
        call("read", "r2"),
    ]
    agent, _ = scripted([calls(*planned), "done"], tmp_path, write, read, act)
    await run_turn(agent, task(agent))
    order = [f"{sign}{item.id}" for item in planned for sign in "+-"]
    assert diary.entries == order


async def test_reads_between_writes_do_not_overtake_them(tmp_path: Path) -> None:
    diary = Diary()
    tools = Handmade("write", diary, "idempotent"), Handmade("look", diary)
    planned = [call("look", "r1"), call("look", "r2"), call("write", "w"), call("look", "r3")]
    agent, _ = scripted([calls(*planned), "done"], tmp_path, *tools)
    await run_turn(agent, task(agent))
    assert diary.entries[:2] == ["+r1", "+r2"]
    assert diary.entries[-4:] == ["+w", "-w", "+r3", "-r3"]


async def test_results_are_in_call_order(tmp_path: Path) -> None:
    second_done = asyncio.Event()

    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        if context.call.id == "c1":
            await second_done.wait()
        else:
            second_done.set()
        return ToolResult(f"result of {context.call.id}")

    planned = [call("look", "c1"), call("look", "c2")]
    agent, model = scripted([calls(*planned), "done"], tmp_path, Handmade("look", body))
    seen, _ = await run_turn(agent, task(agent))
    assert results(model.requests[1].messages) == ["result of c1", "result of c2"]
    ended = [event.id for event in seen if isinstance(event, events.ToolResulted)]
    assert ended == ["c2", "c1"]


async def test_each_step_is_reported_before_the_next_begins(tmp_path: Path) -> None:
    class Ledger:
        def __init__(self) -> None:
            self.entries: list[str] = []

        async def reply(self, message: object) -> None:
            self.entries.append("reply")

        async def start(self, call: ToolCall, effect: str) -> None:
            self.entries.append(f"start {call.id} {effect}")

        async def finish(self, call: ToolCall, result: ToolResult) -> None:
            self.entries.append(f"finish {call.id} {result.for_model}")

    ledger = Ledger()

    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        ledger.entries.append(f"effect {context.call.id}")
        return ToolResult("ok")

    reply = calls(call("act", "c1"), ToolCall("c2", "act", None, "{"), call("act", "c3"))
    agent, _ = scripted([reply, "done"], tmp_path, Handmade("act", body, "unsafe"))
    await run_turn(agent, task(agent, progress=ledger))
    assert ledger.entries == [
        "reply",
        "start c1 unsafe",
        "effect c1",
        "finish c1 ok",
        "finish c2 The arguments of act are not a JSON object: {",
        "start c3 unsafe",
        "effect c3",
        "finish c3 ok",
        "reply",
    ]


async def test_person_sees_the_summary_of_the_tool(tmp_path: Path) -> None:
    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        context.output("live", "stdout")
        return ToolResult("long text for the model", for_user="short")

    agent, model = scripted([calls(call("act")), "done"], tmp_path, Handmade("act", body))
    seen, _ = await run_turn(agent, task(agent))
    assert events.ToolOutput("c1", "live", "stdout") in seen
    (shown,) = (event for event in seen if isinstance(event, events.ToolResulted))
    assert (shown.content, shown.is_error) == ("short", False)
    assert results(model.requests[1].messages) == ["long text for the model"]


async def test_change_is_shown_with_its_diff(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old\n")
    change = call("write_file", path="a.txt", content="new\n")
    agent, _ = scripted([calls(call("read_file", "c0", path="a.txt"), change), "done"], tmp_path)
    seen, _ = await run_turn(agent, task(agent))
    _, shown = (event for event in seen if isinstance(event, events.ToolResulted))
    assert shown.diff is not None
    assert "-old\n+new" in shown.diff
    assert events.FileChanged(str(tmp_path / "a.txt"), "tool") in seen


async def test_repeated_result_keeps_its_text(tmp_path: Path) -> None:
    async def body(args: Mapping[str, Any], context: CallContext) -> ToolResult:
        return ToolResult("same")

    planned = calls(*(call("look", f"c{n}") for n in range(3)))
    agent, _ = scripted([planned, "done"], tmp_path, Handmade("look", body))
    _, result = await run_turn(agent, task(agent))
    assert results(result.messages) == ["same", "same", f"same\n\n{load_prompt('repeated')}"]


async def test_events_use_the_canonical_name_of_the_tool(tmp_path: Path) -> None:
    agent, _ = scripted([calls(call("Bash", "c1", command="echo hi")), "done"], tmp_path)
    happened, _ = await run_turn(agent, task(agent))
    named = [e.name for e in happened if isinstance(e, events.ToolStart | events.ToolResulted)]
    assert named == ["exec", "exec"]


async def test_ten_calls_of_unknown_tools_in_a_row_end_the_turn(tmp_path: Path) -> None:
    replies = [calls(call(f"tool_{n}", f"c{n}")) for n in range(2 * MAX_UNKNOWN_CALLS)]
    agent, model = scripted(replies, tmp_path, answers("note"))
    _, result = await run_turn(agent, task(agent))
    assert len(model.requests) == MAX_UNKNOWN_CALLS
    assert result.stopped == "loop"
    assert "do not exist" in result.text


async def test_known_call_resets_the_count_of_unknown_calls(tmp_path: Path) -> None:
    unknown = [calls(call(f"tool_{n}", f"c{n}")) for n in range(MAX_UNKNOWN_CALLS - 1)]
    replies = [*unknown, calls(call("note")), *unknown, "done"]
    agent, _ = scripted(replies, tmp_path, answers("note"))
    _, result = await run_turn(agent, task(agent))
    assert result.text == "done"
