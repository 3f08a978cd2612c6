"""Single turns for scripts: stdout, stderr and the exit code."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import KoreError
from agent.events import ApprovalAsked, TextDelta
from gateway.cli.chat.one_shot import (
    OneShotRequest,
    OneShotTurn,
    OutputFormat,
    StreamedAnswer,
)
from gateway.cli.chat.output_schema import OutputSchema
from gateway.cli.chat.service_connection import ServiceConnection
from gateway.cli.console.chat.message_builder import MessageBuilder
from gateway.core.approval import ApprovalReply
from gateway.core.messages import MessageOptions
from tests.fakes.memory_service import MemoryService

DEADLINE_S = 30


@pytest.fixture
async def service() -> AsyncIterator[MemoryService]:
    async with MemoryService() as memory:
        yield memory


async def turn(service: MemoryService, order: OneShotRequest) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    async with asyncio.timeout(DEADLINE_S):
        code = await OneShotTurn(ServiceConnection(service), order, out, err).run(asyncio.Event())
    return code, out.getvalue(), err.getvalue()


async def test_stdout_contains_only_the_answer(service: MemoryService) -> None:
    code, out, err = await turn(service, OneShotRequest("tool please"))
    assert (code, out) == (0, "echo: tool please\n")
    assert err == "● Reading notes.md\n  └ 4 lines\n"


async def test_notice_goes_to_stderr(service: MemoryService) -> None:
    _, out, err = await turn(service, OneShotRequest("notice mind the gap"))
    assert out == "echo: notice mind the gap\n"
    assert err == "· mind the gap\n"


async def test_control_characters_never_reach_stderr(service: MemoryService) -> None:
    _, _, err = await turn(service, OneShotRequest("notice \x1b[2Jgone \u202e"))
    assert err == "· \\u{1b}[2Jgone \\u{202e}\n"


async def test_command_answer_goes_to_stdout(service: MemoryService) -> None:
    assert await turn(service, OneShotRequest("/status")) == (0, "command /status\n", "")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("hi", 0),
        ("fail", 1),
        ("signal BLOCKED no key", 3),
        ("signal DECIDE a or b", 4),
        ("limit", 5),
    ],
)
async def test_exit_code_reflects_the_outcome(service: MemoryService, text: str, code: int) -> None:
    assert (await turn(service, OneShotRequest(text)))[0] == code


async def test_failed_turn_leaves_stdout_empty(service: MemoryService) -> None:
    _, out, err = await turn(service, OneShotRequest("fail"))
    assert out == ""
    assert "the model is away (unavailable)\n  try later" in err


async def test_json_is_one_object_with_the_outcome(service: MemoryService) -> None:
    _, out, _ = await turn(service, OneShotRequest("signal BLOCKED why", output="json"))
    summary = json.loads(out)
    assert summary["text"] == "why"
    assert (summary["signal"], summary["signal_reason"]) == ("BLOCKED", "why")
    assert summary["usage"] == {"input": 7, "output": 3, "cached": 0}
    assert summary["session_id"] in service.sessions_by_id


async def test_json_contains_the_error(service: MemoryService) -> None:
    _, out, _ = await turn(service, OneShotRequest("fail", output="json"))
    assert json.loads(out)["error"]["code"] == "unavailable"


async def test_denied_call_is_listed_and_can_fail_the_run(service: MemoryService) -> None:
    request = OneShotRequest("denied rm x", output="json")
    code, out, _ = await turn(service, request)
    denied = {"tool": "exec", "arguments": {"command": "rm x"}, "reason": "Not allowed."}
    assert json.loads(out)["denied"] == [denied | {"agent": name} for name in ("main", "explore")]
    assert code == 0
    code, _, err = await turn(service, replace(request, fails_on_denied=True))
    assert code == 6
    assert err.endswith("2 calls were denied: exec\n")
    code, out, _ = await turn(service, OneShotRequest("hi", output="json", fails_on_denied=True))
    assert json.loads(out)["denied"] == []
    assert code == 0


SCHEMA = OutputSchema(
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
)


async def test_answer_is_the_value_that_the_schema_describes(service: MemoryService) -> None:
    service.replies = ['Here it is:\n```json\n{"n": 1, "link": "[a](https://a.example)"}\n```']
    request = OneShotRequest("count", schema=SCHEMA, streams=True)
    code, out, _ = await turn(service, request)
    assert json.loads(out) == {"n": 1, "link": "[a](https://a.example)"}
    assert code == 0
    assert '"required":["n"]' in service.submitted[0].content


async def test_answer_that_violates_the_schema_is_requested_again(service: MemoryService) -> None:
    service.replies = ["certainly", '{"n": "1"}', '{"n": 1}']
    code, out, err = await turn(service, OneShotRequest("count", "json", schema=SCHEMA))
    summary = json.loads(out)
    assert summary["output"] == {"n": 1}
    assert summary["usage"] == {"input": 21, "output": 9, "cached": 0}
    assert summary["text"] == '{"n": 1}'
    assert code == 0
    assert "n: must be of type integer" in service.submitted[2].content
    assert "asking the model again" in err
    assert len(service.sessions_by_id) == 1


@pytest.mark.parametrize("output", ["text", "json"])
async def test_answer_that_never_matches_the_schema_is_an_error(
    service: MemoryService, output: OutputFormat
) -> None:
    service.replies = ["no", "no", "no", '{"n": 1}']
    code, out, err = await turn(service, OneShotRequest("count", output, schema=SCHEMA))
    assert code == 1
    assert "(bad-output)" in err
    if output == "text":
        assert out == ""
    else:
        summary = json.loads(out)
        assert summary["output"] is None
        assert summary["success"] is False
        assert summary["error"]["code"] == "bad-output"
    assert len(service.submitted) == 3


async def test_blocked_model_is_not_asked_for_a_matching_answer(service: MemoryService) -> None:
    code, out, _ = await turn(service, OneShotRequest("signal BLOCKED why", schema=SCHEMA))
    assert (code, out) == (3, "")
    assert len(service.submitted) == 1


async def test_stream_json_prints_one_event_per_line(service: MemoryService) -> None:
    _, out, _ = await turn(service, OneShotRequest("tool", output="stream-json"))
    lines = [json.loads(line) for line in out.splitlines()]
    types = [line["type"] for line in lines]
    assert types[0] == "session_start"
    assert types[-2:] == ["done", "delivered"]
    assert {"tool_start", "tool_result", "text_delta", "usage"} <= set(types)
    assert lines[-1]["text"] == "echo: tool"


async def test_unattended_approval_is_denied_and_reported(
    service: MemoryService,
) -> None:
    code, out, err = await turn(service, OneShotRequest("ask first"))
    assert (code, out) == (0, "answer: deny\n")
    assert "-y" in err
    assert "Running ask first needs approval" in err


async def test_auto_is_sent_with_the_message(service: MemoryService) -> None:
    _, out, _ = await turn(service, OneShotRequest("ask first", options=MessageOptions(auto=True)))
    assert out == "answer: once\n"


async def test_person_is_asked_in_a_terminal(service: MemoryService) -> None:
    async def ask(approval: ApprovalAsked) -> ApprovalReply:
        return ApprovalReply("session" if approval.request.tool == "exec" else "deny")

    out = io.StringIO()
    await OneShotTurn(
        ServiceConnection(service), OneShotRequest("ask"), out, io.StringIO(), ask
    ).run(asyncio.Event())
    assert out.getvalue() == "answer: session\n"
    assert service.answers[0][1] == "session"


async def test_named_session_is_continued(service: MemoryService) -> None:
    session = await service.bind_session("cli:local:earlier", None)
    await turn(service, OneShotRequest("go on", session=session))
    assert [m.text for m in await service.load_messages(session)] == ["go on", "echo: go on"]


async def test_continue_uses_the_newest_session_of_the_user(service: MemoryService) -> None:
    await turn(service, OneShotRequest("one"))
    others = service.sessions_by_id[await service.bind_session("telegram:x:1", None)]
    others.info = type(others.info)(
        others.info.id, "", "idle", "telegram:x:1", "telegram:7", 0, 1e10, 1e10
    )
    mine = next(key for key, stored in service.sessions_by_id.items() if stored is not others)
    info = service.sessions_by_id[mine].info
    own = f"cli:{MessageBuilder('x').build('').sender.id}"
    service.sessions_by_id[mine].info = type(info)(mine, "", "idle", info.lane, own, 0, 1.0, 1.0)
    await turn(service, OneShotRequest("two", latest=True))
    assert len(await service.load_messages(mine)) == 4
    assert not others.messages


async def test_agent_comes_from_the_folder_of_the_session(
    service: MemoryService, tmp_path: Path
) -> None:
    session = await service.bind_session("cli:local:earlier", None)
    there = MessageOptions(cwd=str(tmp_path))
    await turn(service, OneShotRequest("begin", session=session, options=there))
    options = MessageOptions(cwd="/elsewhere", agent={"name": "tester", "folder": "/elsewhere"})

    def choose_agent(folder: str) -> dict[str, Any]:
        return {"name": "tester", "folder": folder}

    request = OneShotRequest("go on", session=session, options=options, choose_agent=choose_agent)
    await turn(service, request)
    assert service.submitted[-1].options.cwd == str(tmp_path)
    assert service.submitted[-1].options.agent == choose_agent(str(tmp_path))


async def test_session_with_an_open_question_is_rejected(service: MemoryService) -> None:
    earlier = MessageBuilder("earlier")
    session = await service.bind_session(earlier.lane, None)
    await service.submit(earlier.build("ask first"))
    async with asyncio.timeout(DEADLINE_S):
        while not await service.list_approvals():
            await asyncio.sleep(0)
    with pytest.raises(KoreError, match="waits for an answer: exec ask first"):
        await turn(service, OneShotRequest("go on", session=session))
    assert [message.content for message in service.submitted] == ["ask first"]


async def test_interrupt_stops_the_turn_and_waits_for_it(service: MemoryService) -> None:
    interrupted = asyncio.Event()
    order = OneShotRequest("slow", output="stream-json")
    out = io.StringIO()
    running = OneShotTurn(ServiceConnection(service), order, out, io.StringIO())
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        task = group.create_task(running.run(interrupted))
        while TextDelta.type not in out.getvalue():
            await asyncio.sleep(0.005)
        interrupted.set()
    assert task.result() == 130
    assert '"stopped":"cancelled"' in out.getvalue()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_progress_of_a_long_turn_is_shown_and_removed(
    service: MemoryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    interrupted, err = asyncio.Event(), Terminal()
    running = OneShotTurn(ServiceConnection(service), OneShotRequest("slow"), io.StringIO(), err)
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        task = group.create_task(running.run(interrupted))
        while "Ctrl-C stops\x1b[0m" not in err.getvalue():
            await asyncio.sleep(0.005)
        interrupted.set()
    assert task.result() == 130
    drawn, _, rest = err.getvalue().rpartition("Ctrl-C stops\x1b[0m")
    assert drawn.startswith("\r\x1b[K\x1b[2mworking ")
    assert rest.startswith("\r\x1b[K")


async def test_streamed_answer_is_printed_while_it_is_written(
    service: MemoryService,
) -> None:
    interrupted, out = asyncio.Event(), io.StringIO()
    running = OneShotTurn(
        ServiceConnection(service), OneShotRequest("slow", streams=True), out, io.StringIO()
    )
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as group:
        task = group.create_task(running.run(interrupted))
        while not out.getvalue():
            await asyncio.sleep(0.005)
        # The turn ends only when it is interrupted.
        assert (out.getvalue(), task.done()) == ("working", False)
        interrupted.set()
    assert task.result() == 130


async def test_streamed_answer_is_printed_once(service: MemoryService) -> None:
    code, out, _ = await turn(service, OneShotRequest("tool please", streams=True))
    assert (code, out) == (0, "echo: tool please\n")


@pytest.mark.parametrize(
    ("again", "delivered", "printed"),
    [
        ("one two three", "one two three", "one two three\n"),
        ("one", "one two", "one two\n"),
        ("", "one two", "one two\n"),
        ("three", "three", "one two\nthree\n"),
    ],
)
def test_restarted_answer_is_not_printed_twice(again: str, delivered: str, printed: str) -> None:
    out = io.StringIO()
    streamed = StreamedAnswer(out, lambda: None)
    for piece in ("\n", "one", " two"):
        streamed.add(piece)
    assert out.getvalue() == "one two"
    streamed.begin()
    for character in again:
        streamed.add(character)
    streamed.finish(delivered)
    assert out.getvalue() == printed
