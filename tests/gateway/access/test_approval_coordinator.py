"""Approvals within a single process: waiting calls, resumed turns and what screens show."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.approvals import Answer, ApprovalRequest
from agent.events import (
    ApprovalAnswered,
    ApprovalAsked,
    Done,
    IterationStart,
    ToolResulted,
    ToolStart,
)
from agent.prompts import load_prompt
from agent.providers.scripted import ScriptedProvider
from agent.types import Effect, Message, assistant
from gateway.access.approvals import ApprovalContext
from gateway.core.errors import AwaitingAnswer
from gateway.core.markdown import escape_markdown
from gateway.core.messages import Sender
from gateway.core.records import WatchEvent
from gateway.store.repositories.access import approvals
from gateway.store.repositories.execution import claims, turns
from tests.gateway.access.approvals import OWNER, Asking, change, question, seed
from tests.gateway.parts import (
    Parts,
    accept_messages,
    chat_message,
    console_message,
    opened,
    running,
    tool_call,
    wait_until,
)

LANE = "chat:bot:1"


def overwrite(id_: str, content: str = "new\n") -> Message:
    """Return a reply that reads a file and then replaces its whole content."""
    read = tool_call(f"r{id_}", "read_file", path="a.txt")
    return assistant("", (read, tool_call(id_, "write_file", path="a.txt", content=content)))


async def until(events: AsyncIterator[WatchEvent], kind: type) -> list[WatchEvent]:
    seen: list[WatchEvent] = []
    async with asyncio.timeout(30):
        async for event in events:
            seen.append(event)
            if isinstance(event, kind):
                return seen
    raise AssertionError(f"no {kind.__name__}: {seen}")


async def test_waiting_turn_occupies_neither_lane_nor_slot(tmp_path: Path) -> None:
    file = seed(tmp_path)
    model = [assistant("", (change("1"),)), "other", "done"]
    more = {"platform": Asking(), "owner": OWNER, "concurrent_turns": 1}
    async with running(tmp_path, model, **more) as parts:
        await accept_messages(parts, chat_message("go"))
        prompt = await question(parts)
        await wait_until(lambda: parts.bus.lanes == 0)
        await accept_messages(parts, chat_message("and me?", "2"))
        assert await parts.platform.answers("2", 1) == ["other"]
        assert await parts.service.answer_approval(prompt.nonce, "once", "cli:0")
        await parts.platform.until(lambda: "done" in parts.platform.texts("1"))
        assert file.read_text() == "new\n"
        assert await parts.stored("turn", "attempts") == [(1,), (1,)]
        assert await parts.stored("approval", "state", "answered_by") == [("once", "cli:0")]


async def test_reads_before_a_question_are_not_repeated(tmp_path: Path) -> None:
    seed(tmp_path)
    reads = [tool_call("1", "read_file", path="a.txt"), tool_call("2", "list_dir", path=".")]
    model = [assistant("", (*reads, change("3"), change("4", "b.txt"))), "done"]
    (tmp_path / "workspace" / "b.txt").write_text("old\n")
    async with running(tmp_path, model, owner=OWNER, platform=Asking()) as parts:
        await accept_messages(parts, chat_message("go"))
        first = await question(parts)
        steps = await parts.stored("step", "n", state="done")
        assert sorted(steps) == [(1,), (2,)]
        (tmp_path / "workspace" / "c.txt").write_text("later\n")
        await parts.service.answer_approval(first.nonce, "once", "cli:0")
        await parts.until_stored("approval", id=2)
        second = await question(parts)
        assert (first.title, second.title) == ("edit_file a.txt", "edit_file b.txt")
        await parts.service.answer_approval(second.nonce, "deny", "cli:0")
        await parts.platform.until(lambda: "done" in parts.platform.texts("1"))
        results = await parts.stored("step", "result", order="n")
        assert "c.txt" not in results[1][0]
        assert "said no" in results[3][0] or 'is_error":true' in results[3][0]


async def test_denial_has_a_reason_after_a_restart(tmp_path: Path) -> None:
    seed(tmp_path)
    model = [assistant("", (change("1"),)), "done"]
    async with running(tmp_path, model, owner=OWNER, platform=Asking()) as parts:
        await accept_messages(parts, chat_message("go"))
        first = await question(parts)
        denied = replace(first, words="Use b.txt.")
        close = approvals.close_approval
        await parts.database.transact(close, denied, "deny", "cli:0", time.time())
    # The process ended before the turn continued.
    async with running(tmp_path, ["done"], owner=OWNER, platform=Asking()) as parts:
        await parts.platform.until(lambda: "done" in parts.platform.texts("1"))
        messages = [m for m in await parts.service.load_messages(first.session) if m.role == "tool"]
        assert "said no" in messages[0].text
        assert "\nUse b.txt.\n" in messages[0].text


async def test_call_that_always_needs_approval_can_only_be_allowed_once(tmp_path: Path) -> None:
    seed(tmp_path)
    async with running(tmp_path, [assistant("", (change("1"),))], owner=OWNER) as parts:
        await parts.bus.submit(console_message("go"))
        session = (await question(parts)).session
        context = ApprovalContext(1, console_message("go"), session, tmp_path)
        request = ApprovalRequest("exec", {"command": "ls"}, "why", rule="ask-outside-sandbox")
        with pytest.raises(AwaitingAnswer):
            await parts.approvals.ask(context, request)
        prompt = (await parts.service.list_approvals())[-1]
        options = parts.approvals.request_event(prompt).view.options
        assert [option.answer for option in options] == ["once", "deny"]
        assert await parts.service.answer_approval(prompt.nonce, "always", "cli:0")
        assert await parts.stored("approval", "state", id=prompt.number) == [("once",)]
        assert not await parts.count("permission_grant")


async def test_reopened_screen_shows_every_event_once(tmp_path: Path) -> None:
    seed(tmp_path)
    message = console_message("go")
    async with running(tmp_path, [assistant("I will.", (change("1"),)), "done"]) as parts:
        async with parts.service.watch(message.session_key) as events:
            await accept_messages(parts, message)
            seen = await until(events, ApprovalAsked)
            assert not any(isinstance(event, ToolStart) for event in seen)
            await wait_until(lambda: parts.bus.lanes == 0)
        # After the screen is closed and reopened, the question is still open.
        async with parts.service.watch(message.session_key) as events:
            (result,) = await until(events, ApprovalAsked)
            assert isinstance(result, ApprovalAsked)
            assert result.expires_s is None
            assert await parts.service.answer_approval(result.nonce, "once", "cli:0")
            assert not await parts.service.answer_approval(result.nonce, "once", "cli:0")
            seen = await until(events, Done)
    starts = [type(e) for e in seen if isinstance(e, ApprovalAnswered | ToolStart | ToolResulted)]
    assert starts == [ApprovalAnswered, ToolStart, ToolResulted]
    assert not any(isinstance(event, ApprovalAsked) for event in seen)


async def test_lane_of_the_same_session_waits_without_a_task(tmp_path: Path) -> None:
    seed(tmp_path)
    model = [assistant("", (change("1"),)), "done", "mine"]
    async with running(tmp_path, model, owner=OWNER, platform=Asking()) as parts:
        await accept_messages(parts, chat_message("go"))
        prompt = await question(parts)
        await parts.service.bind_session("chat:bot:2", prompt.session)
        await accept_messages(parts, chat_message("and here?", "2"))
        await wait_until(lambda: parts.bus.lanes == 0)
        assert await parts.service.answer_approval(prompt.nonce, "once", "cli:0")
        assert await parts.platform.answers("2", 1) == ["mine"]


async def test_status_names_the_open_question(tmp_path: Path) -> None:
    seed(tmp_path)
    model = [assistant("", (change("1"),))]
    async with running(tmp_path, model, owner=OWNER, platform=Asking()) as parts:
        await accept_messages(parts, chat_message("go"))
        prompt = await question(parts)
        await accept_messages(parts, chat_message("/status"))
        wanted = (
            f"Waiting for your answer to question {prompt.number}: {escape_markdown(prompt.title)}"
        )
        await parts.platform.until(lambda: any(wanted in x for x in parts.platform.texts("1")))


async def test_stop_ends_a_waiting_turn(tmp_path: Path) -> None:
    file = seed(tmp_path)
    async with running(
        tmp_path, [assistant("", (change("1"),))], owner=OWNER, platform=Asking()
    ) as parts:
        await accept_messages(parts, chat_message("go"))
        prompt = await question(parts)
        assert await parts.service.stop_turn(prompt.lane)
        await parts.platform.until(lambda: "⏹ Stopped." in parts.platform.texts("1"))
        assert await parts.stored("approval", "state") == [("withdrawn",)]
        assert file.read_text() == "old\n"


async def test_calls_not_begun_before_a_stop_are_reported(tmp_path: Path) -> None:
    seed(tmp_path)
    calls = (
        tool_call("1", "read_file", path="a.txt"),
        change("2"),
        tool_call("3", "exec", command="true"),
    )
    async with running(tmp_path, [assistant("", calls)], owner=OWNER, platform=Asking()) as parts:
        await accept_messages(parts, chat_message("go"))
        prompt = await question(parts)
        assert await parts.service.stop_turn(prompt.lane)
        await parts.platform.until(lambda: "⏹ Stopped." in parts.platform.texts("1"))
        messages = [
            m for m in await parts.service.load_messages(prompt.session) if m.role == "tool"
        ]
        assert [m.text for m in messages[1:]] == [load_prompt("not_run")] * 2
        assert "old" in messages[0].text


async def test_call_begun_before_a_crash_is_reported_as_interrupted(tmp_path: Path) -> None:
    """The file exists after the crash, so the resumed call asks before it changes it."""
    model = [assistant("", (change("1"), change("2", "b.txt")))]
    async with opened(tmp_path, model, owner=OWNER, platform=Asking()) as parts:
        await accept_messages(parts, chat_message("go"))
        reading = (lambda _: False, parts.turns.compose)
        claim = await parts.database.transact(claims.claim, LANE, time.time(), *reading)
        assert isinstance(claim, claims.TurnClaim)
        effects: dict[str, Effect] = {"1": "idempotent", "2": "idempotent"}
        rows = (claim.turn, claim.session, model, effects, time.time())
        await parts.database.transact(turns.add_reply, *rows)
        await parts.database.transact(turns.start_call, claim.turn, change("1"))
    seed(tmp_path)
    async with running(tmp_path, [], owner=OWNER, platform=Asking()) as parts:
        prompt = await question(parts)
        assert await parts.service.stop_turn(prompt.lane)
        await parts.platform.until(lambda: "⏹ Stopped." in parts.platform.texts("1"))
        messages = [
            m for m in await parts.service.load_messages(prompt.session) if m.role == "tool"
        ]
        assert [m.text for m in messages] == [load_prompt("interrupted"), load_prompt("not_run")]


async def test_unattended_turn_denies_without_asking(tmp_path: Path) -> None:
    seed(tmp_path)
    async with running(tmp_path, [assistant("", (change("1"),)), "well"], owner=OWNER) as parts:
        await accept_messages(parts, chat_message("go"))
        assert await parts.platform.answers("1", 1) == ["well"]
        assert not await parts.count("approval")


async def test_session_grant_ends_with_the_session(tmp_path: Path) -> None:
    file = seed(tmp_path)
    model = [assistant("", (change("1"),)), "a", assistant("", (change("2"),)), "b"]
    model += [assistant("", (change("3"),)), "c"]
    async with running(tmp_path, model, owner=OWNER, platform=Asking()) as parts:
        await accept_messages(parts, chat_message("go"))
        await parts.service.answer_approval((await question(parts)).nonce, "session", "cli:0")
        await parts.platform.until(lambda: "a" in parts.platform.texts("1"))
        file.write_text("old\n")
        await accept_messages(parts, chat_message("go"))
        await parts.platform.until(lambda: "b" in parts.platform.texts("1"))
        file.write_text("old\n")
        await accept_messages(parts, chat_message("/new"), chat_message("go"))
        assert (await question(parts)).title == "edit_file a.txt"


async def test_changing_file_asks_again_without_counting_an_attempt(tmp_path: Path) -> None:
    file = seed(tmp_path)
    model = [overwrite("1"), "done"]
    async with running(tmp_path, model, owner=OWNER, platform=Asking()) as parts:
        await accept_messages(parts, chat_message("go"))
        for number in range(1, 6):
            await parts.until_stored("approval", id=number)
            prompt = await question(parts)
            file.write_text(f"version {number}\n")
            await parts.service.answer_approval(prompt.nonce, "once", "cli:0")
        await parts.until_stored("approval", id=6)
        await parts.service.answer_approval((await question(parts)).nonce, "once", "cli:0")
        await parts.platform.until(lambda: "done" in parts.platform.texts("1"))
        assert file.read_text() == "new\n"
        assert await parts.stored("turn", "attempts") == [(1,)]


async def test_waiting_does_not_reset_the_iteration_limit(tmp_path: Path) -> None:
    file = seed(tmp_path)
    model = ScriptedProvider([overwrite(str(n), f"{n}\n") for n in range(5)])
    async with running(tmp_path, model) as parts:
        with parts.events.watch("cli:local:main") as seen:
            await parts.bus.submit(console_message("go", options={"max_iterations": 2}))
            for _ in range(2):
                assert await parts.service.answer_approval(
                    (await question(parts)).nonce, "once", "cli:0"
                )
            events = await until(seen, Done)
        starts = [(e.n, e.max) for e in events if isinstance(e, IterationStart)]
        assert starts == [(1, 2), (2, 2)]
        done = events[-1]
        assert isinstance(done, Done)
        assert done.result.stopped == "max_iterations"
        assert file.read_text() == "1\n"
        assert len(model.requests) == 2


async def test_removed_person_loses_their_grants(tmp_path: Path) -> None:
    file = seed(tmp_path)
    model = ["hello", assistant("", (change("1"),)), "a", assistant("", (change("2"),)), "b"]
    other = {"chat": "8", "sender": Sender("8", "Bob")}

    async def let_in(parts: Parts, message_count: int) -> None:
        await accept_messages(parts, chat_message("hello?", **other))
        replies = await parts.platform.answers("8", message_count)
        await parts.service.approve_pairing(replies[-1].split("`")[1])

    async with running(tmp_path, model, owner=OWNER, allow=(), platform=Asking()) as parts:
        parts.app.access.roles = {"chat:8": "build"}
        await accept_messages(parts, chat_message("hi", "7"))
        await parts.platform.until(lambda: "hello" in parts.platform.texts("7"))
        await let_in(parts, 1)
        await accept_messages(parts, chat_message("go", **other))
        await parts.service.answer_approval((await question(parts)).nonce, "always", "cli:0")
        await parts.platform.until(lambda: "a" in parts.platform.texts("8"))
        await parts.service.revoke_pairing("chat:8")
        await parts.delete("pairing")
        await let_in(parts, len(parts.platform.texts("8")) + 1)
        file.write_text("old\n")
        await accept_messages(parts, chat_message("go", **other))
        assert (await question(parts)).title == "edit_file a.txt"
        assert file.read_text() == "old\n"


@pytest.mark.parametrize("answer", ["session", "always"])
async def test_script_grant_ends_with_its_content(tmp_path: Path, answer: Answer) -> None:
    script = tmp_path / "workspace" / "x.sh"
    script.parent.mkdir()
    script.write_text("echo first\n")
    runs = [
        step for n in range(3)
        for step in (assistant("", (tool_call(str(n), "exec", command="sh x.sh"),)), f"end {n}")
    ]  # fmt: skip
    async with running(tmp_path, runs, owner=OWNER) as parts:

        async def ended(n: int) -> None:
            await parts.until_count(n, "turn", state="done")

        await parts.bus.submit(console_message("go"))
        await parts.service.answer_approval((await question(parts)).nonce, answer, "cli:0")
        await ended(1)
        await parts.bus.submit(console_message("again"))
        await ended(2)
        script.write_text("echo second\n")
        await parts.bus.submit(console_message("once more"))
        assert (await question(parts)).request.command == "sh x.sh"
        assert await parts.count("approval") == 2
