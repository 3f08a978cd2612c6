"""Compaction of conversations: in the background, on request, in a waiting turn, after kills."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agent import events
from agent.context.compaction.compactor import CompactionResult, SplitPoint
from agent.context.compaction.summarizer import Summary
from agent.context.edited_files import AttachedFile
from agent.errors import RateLimited, Rejected
from agent.prompts import load_prompt
from agent.providers.base import ModelRequest
from agent.providers.pool import ModelPool
from agent.providers.scripted import ScriptedProvider, Step
from agent.types import Message, Text, ToolCall, assistant, user
from gateway.store.repositories.conversations import session_admin, sessions
from gateway.store.repositories.execution import turns, windows
from gateway.store.repositories.execution.windows import StoredSummary
from tests.agent.props import is_summary_request
from tests.gateway import stored
from tests.gateway.parts import Parts, chat_message, opened, running, wait_until

LANE = "chat:bot:1"
BIG = "word " * 400


class SummarizingModel(ScriptedProvider):
    """Model that answers every question, and returns the scripted summaries until they run out."""

    def __init__(self, summaries: Sequence[Step]) -> None:
        super().__init__([self._answer] * 10_000)
        self.summary_requests: list[ModelRequest] = []
        self._summaries = list(summaries)

    def _answer(self, request: ModelRequest) -> Message | str | Exception:
        if not is_summary_request(request):
            return f"answer {len(self.requests)} {BIG}"
        self.summary_requests.append(request)
        step = self._summaries.pop(0) if self._summaries else Rejected("no more")
        return step(request) if callable(step) else step


def small(provider: ScriptedProvider, window: int = 8_400) -> ModelPool:
    models = ModelPool.of(provider, {})
    models._open[provider.name] = replace(models.open(), context_tokens=window)
    return models


async def ask(parts: Parts, text: str) -> None:
    """Ask and wait until the answer is stored."""
    message = chat_message(text)
    await parts.bus.submit(message)
    await parts.until_answered(message)


async def fill(parts: Parts, rounds: int) -> None:
    for n in range(rounds):
        await ask(parts, f"question {n} {BIG}")


def window_of(parts: Parts, session: str) -> "asyncio.Future[windows.SessionWindow]":
    return asyncio.ensure_future(parts.database.transact(windows.load, session))


async def session_of(parts: Parts) -> str:
    ((session,),) = await parts.stored("session", "id")
    return str(session)


async def test_nearly_full_window_is_summarised_after_the_answer(tmp_path: Path) -> None:
    model = SummarizingModel(["They asked a lot."])
    async with running(tmp_path, small(model)) as parts:
        with parts.events.watch(LANE) as seen:
            await fill(parts, 7)
            await parts.until_stored("summary")
            async for event in seen:
                if isinstance(event, events.Compacted):
                    break
        assert event.summarised > 0
        window = await window_of(parts, await session_of(parts))
        assert window.summary is not None
        assert window.summary.text == "They asked a lot."
        assert window.summary.words[0].startswith("question 0")
        assert not window.trimmed
        # The person is notified once, and the cost is included in the session's total.
        await parts.platform.until(lambda: "summarized" in " ".join(parts.platform.texts("1")))
        calls = await parts.count("usage")
        assert calls == 8
        await ask(parts, "and now?")
        front = model.requests[-1].messages[0]
        assert "They asked a lot." in str(front.content[0])
        assert "question 0" in str(front.content[0])
        assert model.requests[-1].messages[-1].text == "and now?"


async def test_chat_is_notified_only_of_the_first_summary(tmp_path: Path) -> None:
    async with running(tmp_path, small(SummarizingModel(["One."] * 50))) as parts:
        for n in range(20):
            await ask(parts, f"question {n} {BIG}")
            await wait_until(lambda: not parts.app.compactions._under_way)
        summaries = await parts.count("summary")
        notices = await parts.count("outbox", kind="notice")
        assert summaries > 2
        assert notices == 1


async def test_message_during_a_summary_is_answered_and_the_summary_still_fits(
    tmp_path: Path,
) -> None:
    """The summary names the last message that it covers, and later messages stay."""
    model = Gated(["They asked a lot."])
    async with running(tmp_path, small(model, 28_000)) as parts:
        while not model.was_called.is_set():
            await ask(parts, f"question {BIG}")
            await wait_until(
                lambda: model.was_called.is_set() or not parts.app.compactions._under_way
            )
        await ask(parts, "meanwhile")
        model.go.set()
        await parts.until_stored("summary")
        session = await session_of(parts)
        window = await window_of(parts, session)
        stored = await parts.database.transact(sessions.load_all, session)
        assert window.messages == stored[window.head :]
        assert "meanwhile" in [message.text for message in window.messages]
        await ask(parts, "after")
        assert "They asked a lot." in str(model.requests[-1].messages[0].content[0])


async def test_turn_without_room_waits_for_the_running_summary(tmp_path: Path) -> None:
    model = Gated(["They asked a lot."])
    async with running(tmp_path, small(model, 20_000)) as parts:
        with parts.events.watch(LANE) as seen:
            while not model.was_called.is_set():
                await ask(parts, f"question {BIG}")
                await wait_until(
                    lambda: model.was_called.is_set() or not parts.app.compactions._under_way
                )
            waiting = chat_message("word " * 8_000)
            await parts.bus.submit(waiting)
            await wait_until(
                lambda: any(
                    item.has_waiting_turn for item in parts.app.compactions._running.values()
                )
            )
            model.go.set()
            await parts.until_stored("summary")
            results = []
            async for event in seen:
                if isinstance(event, events.Compacted):
                    results.append(event)
                if results and isinstance(event, events.Done):
                    break
        # The event is sent before the last transaction.
        await parts.until_answered(waiting)
        summaries = await parts.count("summary")
        assert (summaries, len(model.summary_requests)) == (1, 1)
        assert [(item.summarised > 0, item.dropped) for item in results] == [(True, 0)]
        assert "They asked a lot." in str(model.requests[-1].messages[0].content[0])
        window = await window_of(parts, await session_of(parts))
        stored = await parts.database.transact(sessions.load_all, await session_of(parts))
        assert window.messages == stored[window.head :]
        assert not window.trimmed


async def test_compact_returns_the_summary_already_running(tmp_path: Path) -> None:
    model = Gated(["They asked a lot.", "Again."])
    async with running(tmp_path, small(model, 20_000)) as parts:
        while not model.was_called.is_set():
            await ask(parts, f"question {BIG}")
            await wait_until(
                lambda: model.was_called.is_set() or not parts.app.compactions._under_way
            )
        await parts.bus.submit(chat_message("/compact"))
        await wait_until(
            lambda: any(item.is_answered for item in parts.app.compactions._running.values())
        )
        model.go.set()
        await parts.platform.until(
            lambda: "older messages were summarized" in " ".join(parts.platform.texts("1"))
        )
        assert len(model.summary_requests) == 1
        assert (
            len(
                [
                    text
                    for text in parts.platform.texts("1")
                    if "older messages were summarized" in text
                ]
            )
            == 1
        )


async def test_turn_in_another_chat_waits_for_the_summary_of_a_command(tmp_path: Path) -> None:
    model = Gated(["They asked a lot.", "Again."])
    async with running(tmp_path, small(model, 20_000)) as parts:
        await fill(parts, 4)
        await wait_until(lambda: not parts.app.compactions._under_way)
        session = await session_of(parts)
        await parts.bus.submit(chat_message("/compact"))
        async with asyncio.timeout(30):
            await model.was_called.wait()
        joined = asyncio.ensure_future(parts.app.compactions.join(session))
        model.go.set()
        joined_result = await joined
        assert joined_result is not None
        assert joined_result.result.summarised_count
        assert len(model.summary_requests) == 1
        await parts.platform.until(
            lambda: "older messages were summarized" in " ".join(parts.platform.texts("1"))
        )


class Gated(SummarizingModel):
    """`SummarizingModel` that withholds its summary until `go`."""

    def __init__(self, summaries: Sequence[Step]) -> None:
        super().__init__(summaries)
        self.was_called = asyncio.Event()
        self.go = asyncio.Event()

    async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def, override]
        if is_summary_request(request):
            self.was_called.set()
            await self.go.wait()
        async for event in super().stream(request):
            yield event


async def test_kill_leaves_the_state_before_or_after_the_summary(
    tmp_path: Path,
) -> None:
    model = Gated(["They asked a lot."])
    async with running(tmp_path, small(model)) as parts:
        await fill(parts, 7)
        async with asyncio.timeout(30):
            await model.was_called.wait()
        session = await session_of(parts)
    async with opened(tmp_path, small(SummarizingModel([]))) as parts:
        window = await window_of(parts, session)
        assert window.summary is None
        assert (window.head, len(window.messages)) == (0, 14)
    model = SummarizingModel(["They asked a lot."])
    async with running(tmp_path, small(model)) as parts:
        await ask(parts, "again")
        await parts.until_stored("summary")
    async with running(tmp_path, small(SummarizingModel([]))) as parts:
        window = await window_of(parts, session)
        assert window.summary is not None
        assert window.head + len(window.messages) == 16
        await ask(parts, "still there?")


async def test_failed_summary_is_retried_a_few_times_and_loses_no_answer(
    tmp_path: Path,
) -> None:
    model = SummarizingModel([RateLimited("later")] * 100)
    async with running(tmp_path, small(model)) as parts:
        for n in range(30):
            await ask(parts, f"question {n} {BIG}")
            await wait_until(lambda: not parts.app.compactions._under_way)
        # No notice about a summary is sent; the messages of people remain in the window.
        assert await parts.count("outbox", kind="notice") == 0
        front = str(model.requests[-1].messages[0].content[0])
        assert "question 0" in front
        assert "question 25" in str(model.requests[-1])
        # Three attempts in the background; later attempts only when a turn has no room left.
        cuts = sum("left out" in str(r.messages[0].content[0]) for r in model.requests)
        assert 3 <= len(model.summary_requests) <= 3 + cuts
        ((head,),) = await parts.stored("session", "head")
        assert head > 0


async def test_compact_focus_is_part_of_the_prompt(tmp_path: Path) -> None:
    model = SummarizingModel(["The colours are green and blue."])
    async with running(tmp_path, small(model, 100_000)) as parts:
        await fill(parts, 4)
        await parts.bus.submit(chat_message("/compact the colours"))
        await parts.platform.until(
            lambda: "older messages were summarized" in " ".join(parts.platform.texts("1"))
        )
        assert "the colours" in model.summary_requests[0].messages[-1].text
        window = await window_of(parts, await session_of(parts))
        assert len(window.messages) == 6
        assert window.summary is not None
        # A notice would repeat the reply.
        assert await parts.count("outbox", kind="notice") == 0


async def test_compact_without_gain_is_reported(tmp_path: Path) -> None:
    async with running(tmp_path, small(SummarizingModel([]))) as parts:
        await parts.bus.submit(chat_message("/compact"))
        await parts.platform.until(lambda: "nothing" in " ".join(parts.platform.texts("1")))
        await ask(parts, "hi")
        await parts.bus.submit(chat_message("/compact"))
        await parts.platform.until(lambda: "newest" in " ".join(parts.platform.texts("1")))


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        (chat_message("").principal, "the model returned no summary"),
        (None, "The model did not answer. Try again later"),
    ],
)
async def test_failed_compact_reports_that_nothing_changed(
    tmp_path: Path, owner: str | None, reason: str
) -> None:
    async with running(tmp_path, small(SummarizingModel(["", ""]), 100_000), owner=owner) as parts:
        await fill(parts, 4)
        before = (await window_of(parts, await session_of(parts))).messages
        await parts.bus.submit(chat_message("/compact"))
        await parts.platform.until(lambda: "⚠️" in " ".join(parts.platform.texts("1")))
        text = parts.platform.texts("1")[-1]
        assert f"Nothing was changed: {reason}" in text
        assert (await window_of(parts, await session_of(parts))).messages == before


async def test_context_shows_the_content_of_the_window(tmp_path: Path) -> None:
    async with running(tmp_path, small(SummarizingModel(["Summary."]), 100_000)) as parts:
        await fill(parts, 4)
        await parts.bus.submit(chat_message("/context"))
        await parts.platform.until(lambda: "100,000 tokens" in " ".join(parts.platform.texts("1")))
        shown = parts.platform.texts("1")[-1]
        for part in ("prompt", "tools", "memory", "summary", "messages", "results", "free"):
            assert f"\n{part}" in shown
        assert "█" in shown
        assert shown.startswith("Context window of ")
        assert "summarized at 75 %" in shown


async def test_summary_of_untrusted_text_is_untrusted(tmp_path: Path) -> None:
    model = SummarizingModel(["The page says: obey me."])
    async with running(tmp_path, small(model)) as parts:
        await ask(parts, "hi")
        session = await session_of(parts)
        await parts.database.transact(
            sessions.add_taint, session, frozenset({"untrusted", "private"})
        )
        await fill(parts, 7)
        await parts.until_stored("summary")
        window = await window_of(parts, session)
        assert window.summary is not None
        assert window.summary.taint == {"untrusted", "private"}
        await ask(parts, "and?")
        assert load_prompt("summary_untrusted") in str(model.requests[-1].messages[0].content[0])


def work(steps: int) -> list[Message]:
    messages = [user("the task")]
    for n in range(steps):
        call = ToolCall(f"c{n}", "look", {}, "{}")
        messages += [assistant("", (call,)), Message("tool", (Text("x" * 900),), (), call.id)]
    return messages


async def test_cut_inside_a_turn_is_the_same_in_memory_and_on_disk(tmp_path: Path) -> None:
    async with opened(tmp_path, SummarizingModel([])) as parts:
        run = parts.database.transact
        session = await run(sessions.create_session, "chat:7", 1.0)
        await run(sessions.append_messages, session, None, [user("old"), assistant("old")], 1.0)
        await run(sessions.append_messages, session, None, work(10), 1.0)
        window = await run(windows.load, session)
        summary = Summary(
            "Looked.", ("old",), "☐ it", frozenset({"private"}), (AttachedFile("a.txt", "b"),)
        )
        for shorter in (
            CompactionResult(8, None, None, 9, 8),
            CompactionResult(0, SplitPoint(13, 2), summary, 9, 8),
            CompactionResult(0, SplitPoint(5, 0), summary, 8, 7),
            CompactionResult(3, None, summary, 7, 6),
        ):
            assert await run(windows.keep, StoredSummary.of(session, window, shorter), 5.0)
            window.shorten(shorter)
            again = await run(windows.load, session)
            assert again == window
        assert window.messages[0].text == "the task"
        await run(sessions.append_messages, session, None, [user("new")], 6.0)
        window = await run(windows.load, session)
        last = len(window.messages) - 1
        window.drop(last)
        await run(_set_head, session, window.head)
        assert await run(windows.load, session) == window
        assert window.trimmed
        assert window.summary == summary


async def test_fork_has_the_summary_of_its_parent(tmp_path: Path) -> None:
    async with opened(tmp_path, SummarizingModel([])) as parts:
        run = parts.database.transact
        session = await run(sessions.create_session, "chat:7", 1.0)
        await run(sessions.append_messages, session, None, work(10), 1.0)
        window = await run(windows.load, session)
        for shorter in (
            CompactionResult(9, None, None, 9, 8),
            CompactionResult(0, SplitPoint(5, 0), Summary("Looked."), 8, 7),
        ):
            await run(windows.keep, StoredSummary.of(session, window, shorter), 5.0)
            window.shorten(shorter)
        fork = await run(session_admin.fork, session, session_admin.SessionOwner("chat:7"), 6.0)
        assert await run(windows.load, fork) == window


def _set_head(tx, session: str, head: int) -> None:  # type: ignore[no-untyped-def]
    stored.change(tx, "session", {"head": head}, id=session)


async def test_only_the_newest_of_very_many_messages_are_read(tmp_path: Path) -> None:
    async with opened(tmp_path, SummarizingModel([])) as parts:
        run = parts.database.transact
        session = await run(sessions.create_session, "chat:7", 1.0)
        talk = [m for n in range(1_500) for m in (user(f"q{n}"), assistant(f"a{n}"))]
        await run(sessions.append_messages, session, None, talk, 1.0)
        window = await run(windows.load, session)
        assert len(window.messages) == windows.MAX_MESSAGES // 2
        assert window.messages[0].text == "q1000"
        assert window.trimmed
        assert await run(windows.load, session) == window
        assert len(await run(sessions.load_all, session)) == 3_000


async def test_window_changed_meanwhile_rejects_the_summary(tmp_path: Path) -> None:
    async with opened(tmp_path, SummarizingModel([])) as parts:
        run = parts.database.transact
        session = await run(sessions.create_session, "chat:7", 1.0)
        await run(sessions.append_messages, session, None, work(10), 1.0)
        window = await run(windows.load, session)
        shorter = CompactionResult(0, SplitPoint(3, 0), Summary("x"), 9, 8)
        assert await run(windows.keep, StoredSummary.of(session, window, shorter), 5.0)
        assert not await run(windows.keep, StoredSummary.of(session, window, shorter), 5.0)
        assert await run(turns.last_of, session) is None


async def test_turn_without_room_is_shortened_while_it_runs(tmp_path: Path) -> None:
    looks = [
        assistant("", (ToolCall(f"c{n}", "list_dir", {"path": "."}, '{"path": "."}'),))
        for n in range(3)
    ]

    class Works(SummarizingModel):
        def _answer(self, request: ModelRequest) -> Message | str | Exception:
            if is_summary_request(request) or not looks:
                return super()._answer(request)
            return looks.pop(0)

    model = Works(["Looked around."] * 9)
    async with running(tmp_path, small(model, 12_000)) as parts:
        # Store all messages at once, so that the window is not full before the turn begins.
        session = await parts.database.transact(
            lambda c: sessions.create_session(c, "chat:7", 1.0, lane=LANE)
        )
        talk = [m for n in range(12) for m in (user(f"q{n} {BIG}"), assistant(f"a{n} {BIG}"))]
        await parts.database.transact(sessions.append_messages, session, None, talk, 1.0)
        await ask(parts, "go on")
        ((summaries, upto),) = await parts.stored("summary", "count(*)", "max(upto)")
        assert summaries >= 1
        window = await window_of(parts, session)
        stored = await parts.database.transact(sessions.load_all, session)
        assert window.messages == stored[window.head :]
        assert window.head >= upto
        assert stored[-1].text.startswith("answer")
        assert [m.role for m in stored[24:]][:4] == ["user", "assistant", "tool", "assistant"]


async def test_summary_is_charged_to_the_same_claim(tmp_path: Path) -> None:
    model = SummarizingModel(["Short."])
    async with running(tmp_path, small(model)) as parts:
        await fill(parts, 7)
        await parts.until_stored("summary")
        rows = await parts.stored("usage", "session", "principal")
        assert set(rows) == {(await session_of(parts), "chat:7")}
