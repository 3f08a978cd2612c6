import asyncio
import json
import logging
from pathlib import Path

import pytest

from agent.context.history_validation import is_valid
from agent.events import Notice
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.providers.scripted import EchoProvider
from agent.types import Message
from gateway.core.channel_events import Batch
from gateway.core.records import Delivered
from gateway.store.errors import StoreError
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import inbox, outbox
from gateway.store.repositories.delivery.inbox import LANE_LIMIT
from tests.fakes.gated import Gated
from tests.fakes.platform import Platform
from tests.gateway.parts import (
    Parts,
    at_work,
    chat_message,
    console_message,
    opened,
    running,
    wait_until,
)
from tests.gateway.store import faults
from tests.gateway.stored import like, unlike
from tests.postgres_server import only_sqlite


async def history(parts: Parts, session: str | None = None) -> list[Message]:
    """Return the stored messages of a session; of the only session by default."""
    if session is None:
        ((session,),) = await parts.stored("session", "id")
    return await parts.database.transact(sessions.load_all, session)


async def take(parts: Parts, *messages: object, **more: int) -> None:
    await parts.bus.accept("chat", "bot", Batch(messages, **more))  # type: ignore[arg-type]


async def test_message_is_answered_in_its_chat(tmp_path: Path) -> None:
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await take(parts, chat_message("one", "1"), chat_message("two", "2"))
        assert await parts.platform.answers("1", 1) == ["re: one"]
        assert await parts.platform.answers("2", 1) == ["re: two"]


async def test_messages_of_a_chat_are_answered_in_order_one_at_a_time(tmp_path: Path) -> None:
    model = Gated(is_open=lambda _: True)
    async with running(tmp_path, model) as parts:
        await take(parts, *(chat_message(str(n)) for n in range(10)))
        assert await parts.platform.answers("1", 10) == [f"re: {n}" for n in range(10)]
    assert model.most == 1


async def test_chats_do_not_wait_for_each_other(tmp_path: Path) -> None:
    model = Gated()
    async with running(tmp_path, model) as parts:
        await take(parts, chat_message("slow", "1"), chat_message("quick", "2"))
        await model.wait_for_text("slow")
        model.let_go("quick")
        assert await parts.platform.answers("2", 1) == ["re: quick"]
        assert parts.platform.texts("1") == []


async def test_message_delivered_twice_is_answered_once(tmp_path: Path) -> None:
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        message = chat_message("one")
        await take(parts, message)
        await parts.platform.answers("1", 1)
        await take(parts, message, chat_message("two"))
        assert await parts.platform.answers("1", 2) == ["re: one", "re: two"]


async def test_pending_messages_are_answered_by_the_next_process(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, Gated()) as parts:
        await take(parts, chat_message("one"), chat_message("two"))
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        assert await parts.platform.answers("1", 2) == ["re: one", "re: two"]


async def test_interrupted_turn_continues_in_the_next_process(tmp_path: Path) -> None:
    model = Gated()
    async with running(tmp_path, model) as parts:
        await take(parts, chat_message("one"))
        await model.wait_for_text("one")
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        assert await parts.platform.answers("1", 1) == ["re: one"]
        assert [m.text for m in await history(parts)] == ["one", "re: one"]


async def test_stop_ends_the_running_turn_and_the_next_message_is_answered(tmp_path: Path) -> None:
    model = Gated()
    async with running(tmp_path, model) as parts:
        await take(parts, chat_message("long"))
        await model.wait_for_text("long")
        await take(parts, chat_message("next"))
        model.let_go("next")
        await take(parts, chat_message("/stop"))
        assert await parts.platform.answers("1", 2) == ["re:\n\n⏹ Stopped.", "re: next"]
        stored = await history(parts)
        assert is_valid(stored)
        assert [m.text for m in stored] == ["long", "re: ", "next", "re: next"]


async def test_second_stop_has_no_effect(tmp_path: Path) -> None:
    model = Gated()
    async with running(tmp_path, model) as parts:
        await take(parts, chat_message("long"))
        await model.wait_for_text("long")
        await take(parts, chat_message("/stop"), chat_message("/stop"))
        model.let_go("next")
        await take(parts, chat_message("next"))
        await parts.platform.until(lambda: "re: next" in parts.platform.texts("1"))
        assert parts.platform.texts("1")[0] == "re:\n\n⏹ Stopped."


async def test_stop_without_a_running_turn_is_reported(tmp_path: Path) -> None:
    async with running(tmp_path, Gated()) as parts:
        await take(parts, chat_message("/stop"))
        assert await parts.platform.answers("1", 1) == ["Nothing is running."]


async def test_stop_withdraws_earlier_messages_of_its_batch(tmp_path: Path) -> None:
    model = Gated(is_open=lambda _: True)
    async with running(tmp_path, model) as parts:
        await take(parts, chat_message("regretted"), chat_message("/stop"), chat_message("after"))
        await parts.platform.answers("1", 2)
        assert sorted(parts.platform.texts("1")) == ["re: after", "⏹ Stopped."]
    assert model.texts == ["after"]


async def test_stopped_turn_is_not_resumed_by_the_next_process(tmp_path: Path) -> None:
    model = Gated()
    async with running(tmp_path, model) as parts:
        await take(parts, chat_message("long"))
        await model.wait_for_text("long")
    async with opened(tmp_path, Gated()) as parts:
        await take(parts, chat_message("/stop"))
    again = Gated(is_open=lambda _: True)
    async with running(tmp_path, again) as parts:
        await take(parts, chat_message("next"))
        assert await parts.platform.answers("1", 2) == ["⏹ Stopped.", "re: next"]
        assert is_valid(await history(parts))
    assert again.texts == ["next"]


async def test_redelivered_stop_does_not_stop_later_turns(tmp_path: Path) -> None:
    model = Gated()
    async with running(tmp_path, model) as parts:
        batch = [chat_message("first"), chat_message("/stop"), chat_message("second")]
        await take(parts, *batch)
        await model.wait_for_text("second")
        await take(parts, *batch)
        model.let_go()
        await parts.platform.answers("1", 2)
        assert parts.platform.texts("1")[-1] == "re: second"


async def test_stop_ends_a_turn_that_waits_for_a_slot(tmp_path: Path) -> None:
    model = Gated()
    async with running(tmp_path, model, concurrent_turns=1) as parts:
        await take(parts, chat_message("busy", "1"))
        await model.wait_for_text("busy")
        await take(parts, chat_message("queued", "2"))
        await parts.until_stored("turn", lane="chat:bot:2")
        await take(parts, chat_message("/stop", "2"))
        model.let_go()
        assert await parts.platform.answers("2", 1) == ["⏹ Stopped."]
    assert model.texts == ["busy"]


async def test_new_starts_a_conversation_within_a_batch(tmp_path: Path) -> None:
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await take(parts, chat_message("A"), chat_message("/new"), chat_message("B"))
        await parts.platform.answers("1", 3)
        assert parts.platform.texts("1")[1].startswith("New conversation")
        rows = await parts.stored("session", "id", order="created_at, id")
        results = [[m.text for m in await history(parts, session)] for (session,) in rows]
        assert results == [["A", "re: A"], ["B", "re: B"]]


async def test_unusable_model_is_rejected(tmp_path: Path) -> None:
    models = ModelPool("offline/echo", known=(ModelConfig("other", "offline/echo"),))
    async with running(tmp_path, models, owner="chat:7") as parts:
        await take(parts, chat_message("/model nobody/knows"), chat_message("/model"))
        refused, result = await parts.platform.answers("1", 2)
        assert "Still using `offline/echo`" in refused
        assert result.startswith("Model: `offline/echo`.")


async def test_commands_show_the_options_of_the_terminal(
    tmp_path: Path,
) -> None:
    other = ModelConfig("other", "offline/echo", context_tokens=50_000)
    models = ModelPool("offline/echo", known=(other,))
    flags = {"options": {"model": "other", "effort": "high"}}
    async with running(tmp_path, models, owner="chat:7") as parts:
        for n, word in enumerate(("/model", "/status", "/context", "/effort"), start=1):
            await take(parts, chat_message(word, **flags))
            await parts.platform.answers("1", n)
        model, status, context, effort = parts.platform.texts("1")
        assert model.startswith("Model: `other`.")
        assert "Model: `other` (offline/echo)" in status
        assert "of 50,000 tokens" in context
        assert "Effort in this conversation: `high`" in effort


async def test_unconfigured_model_can_only_be_selected_by_the_owner(tmp_path: Path) -> None:
    models = ModelPool("offline/echo")
    async with running(tmp_path, models, owner="chat:1") as parts:
        await take(parts, chat_message("/model openai/gpt-9"))
        (answer,) = await parts.platform.answers("1", 1)
        assert answer.startswith("Only the owner")


async def test_lanes_of_one_session_never_run_concurrently(tmp_path: Path) -> None:
    model = Gated()
    async with running(tmp_path, model) as parts:
        await take(parts, chat_message("first", "1"))
        await model.wait_for_text("first")
        ((session,),) = await parts.stored("session", "id")
        await parts.database.transact(sessions.bind, "chat:bot:2", session)
        await take(parts, chat_message("second", "2"))
        model.let_go()
        assert await parts.platform.answers("2", 1) == ["re: second"]
        assert [m.text for m in await history(parts)] == [
            "first",
            "re: first",
            "second",
            "re: second",
        ]
    assert model.most == 1


async def test_internal_error_fails_one_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, [RuntimeError("a bug"), "fine"]) as parts:
        await take(parts, chat_message("one"), chat_message("two"))
        broken, answer = await parts.platform.answers("1", 2)
        assert "⚠️ Internal error while handling message" in broken
        assert answer == "fine"
        assert is_valid(await history(parts))
    assert any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize(
    ("table", "damage", "where"),
    [
        ("inbox", {"payload": "{}"}, {"lane": like("%:1")}),
        ("message", {"content": "{}"}, {}),
    ],
    ids=["message", "history"],
)
async def test_unreadable_chat_is_paused_and_others_are_answered(
    tmp_path: Path,
    table: str,
    damage: dict[str, str],
    where: dict[str, object],
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await take(parts, chat_message("before", "1"))
        await parts.platform.answers("1", 1)
        await parts.until_stored("turn", state="done")
    async with opened(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await take(parts, chat_message("broken", "1"))
        await parts.change(table, damage, **where)
        async with at_work(parts):
            await wait_until(lambda: "Traceback" in caplog.text and parts.bus.lanes == 0)
            await take(parts, chat_message("fine", "2"))
            assert await parts.platform.answers("2", 1) == ["re: fine"]
            await take(parts, chat_message("again", "1"))
            await wait_until(lambda: parts.bus.lanes == 0)


async def test_bug_in_a_command_fails_one_answer(tmp_path: Path) -> None:
    class Broken(ModelPool):
        def check(self, name: str) -> ModelConfig:
            if name == "x/y":
                raise RuntimeError("a bug")
            return super().check(name)

    async with running(tmp_path, Broken("offline/echo"), owner="chat:7") as parts:
        await take(parts, chat_message("/model x/y"), chat_message("/mode"))
        broken, answer = await parts.platform.answers("1", 2)
        assert "⚠️ Internal error while handling message" in broken
        assert answer.startswith("Mode:")


@pytest.mark.parametrize(
    ("what", "refused"),
    [
        ("one", ("INSERT ON message", "not full", "NEW.content LIKE '%re: one%'")),
        ("/queue join", ("INSERT ON session_choice", "not full")),
    ],
    ids=["turn", "command"],
)
async def test_database_error_fails_one_answer(
    tmp_path: Path, what: str, refused: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await take(parts, chat_message("before"))
        await parts.platform.answers("1", 1)
        await parts.until_stored("turn", state="done")
        await parts.database.transact(faults.refuse, *refused)
        await take(parts, chat_message(what))
        _, broken = await parts.platform.answers("1", 2)
        assert "⚠️ Internal error while handling message" in broken
        assert "the database returned an error: not full" in caplog.text
        await parts.database.transact(faults.allow)
        await take(parts, chat_message("next"))
        assert (await parts.platform.answers("1", 3))[2] == "re: next"
        assert is_valid(await history(parts))


async def test_full_disk_delays_answers_without_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = Gated()
    # A model that repeats itself is cut off.
    long = " ".join(map(str, range(8_000)))
    async with running(tmp_path, model) as parts:
        await take(parts, chat_message(long))
        await model.wait_for_text(long)
        await parts.database.transact(faults.fill_disk)
        model.let_go(long)
        await wait_until(lambda: "waits: the disk is full" in caplog.text)
        await parts.database.transact(faults.free_disk)
        await parts.platform.until(lambda: parts.platform.texts("1"))
        assert parts.platform.texts("1")[0].startswith("re: 0 1 2")


async def test_clean_shutdown_does_not_count_as_an_attempt(
    tmp_path: Path,
) -> None:
    model = Gated()
    async with opened(tmp_path, model) as parts:
        async with at_work(parts):
            await take(parts, chat_message("one"), chat_message("two"))
            await model.wait_for_text("one")
            draining = asyncio.create_task(parts.bus.drain())
            model.let_go("one")
            await draining
            assert await parts.platform.answers("1", 1) == ["re: one"]
        assert await parts.database.transact(inbox.lanes_with_work) == ["chat:bot:1"]
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await parts.platform.answers("1", 1)
        assert parts.platform.texts("1") == ["re: two"]


async def test_turn_without_progress_is_abandoned_and_can_be_replayed(
    tmp_path: Path,
) -> None:
    for _ in range(3):
        model = Gated()
        async with running(tmp_path, model) as parts:
            if not await parts.count("inbox"):
                await take(parts, chat_message("deadly"))
            await model.wait_for_text("deadly")
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        (sorry,) = await parts.platform.answers("1", 1)
        assert sorry.startswith("⚠️ I stopped working on this message")
        assert "kore replay 1" in sorry
        await parts.service.replay(1)
        assert (await parts.platform.answers("1", 2))[1] == "re: deadly"
        assert is_valid(await history(parts))


async def test_messages_of_a_flooding_chat_are_joined(tmp_path: Path) -> None:
    async with opened(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await take(parts, *(chat_message(str(n)) for n in range(LANE_LIMIT + 3)))
        async with at_work(parts):
            answers = await parts.platform.answers("1", LANE_LIMIT)
        assert answers[0] == "re: 0\n\n1\n\n2\n\n3"
        assert answers[1:] == [f"re: {n}" for n in range(4, LANE_LIMIT + 3)]


async def test_strangers_are_ignored_and_the_log_explains_access(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with running(tmp_path, EchoProvider(), allow=("8",)) as parts:
        await take(parts, chat_message("let me in"), cursors={"offset": "5"})
        assert await parts.stored("cursor", "value") == [("5",)]
        assert await parts.stored("inbox", "dead_reason") == [("not on the allow-list",)]
        # The check at startup counts as a lane until it has ended.
        await wait_until(lambda: parts.bus.lanes == 0)
        assert await parts.stored("turn", "id") == []
    assert "add 7 to chat.allow_from" in caplog.text
    assert "let me in" not in caplog.text


async def test_row_with_unknown_fields_is_answered(tmp_path: Path) -> None:
    async with opened(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await take(parts, chat_message("one"))
        ((payload,),) = await parts.stored("inbox", "payload")
        later = json.dumps({**json.loads(payload), "mood": "good"})
        await parts.change("inbox", {"payload": later})
        async with at_work(parts):
            assert await parts.platform.answers("1", 1) == ["re: one"]


async def test_console_and_platform_share_the_bus(tmp_path: Path) -> None:
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await parts.service.submit(console_message("hello"))
        await parts.until_stored("outbox", lane="cli:local:main")
        await take(parts, chat_message("one"))
        assert await parts.platform.answers("1", 1) == ["re: one"]


async def test_messages_are_stored_with_valid_text(tmp_path: Path) -> None:
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await take(parts, chat_message("\ud800 half an emoji"))
        await parts.platform.answers("1", 1)
        result, answer = await history(parts)
        assert result.text.endswith(" half an emoji")
        assert answer.text == f"re: {result.text}"


async def test_replies_of_a_killed_process_are_sent_first(tmp_path: Path) -> None:
    platform = Platform()
    platform.blocked.add("1")
    async with running(tmp_path, Gated(is_open=lambda _: True), platform=platform) as parts:
        await take(parts, chat_message("one"))
        await parts.until_stored("outbox", state="inflight")
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await take(parts, chat_message("two"))
        assert await parts.platform.answers("1", 2) == ["re: one", "re: two"]
        assert [shown.repeat for shown in parts.platform.chats["1"]] == [True, False]
        await parts.until_count(0, "outbox", state=unlike("sent"))
        assert await parts.database.transact(outbox.lanes_with_mail) == []


async def test_watchers_are_notified_of_a_full_disk(tmp_path: Path) -> None:
    model = Gated()
    # A model that repeats itself is cut off.
    long = " ".join(map(str, range(8_000)))
    async with running(tmp_path, model) as parts:
        question = console_message(long)
        async with parts.service.watch(question.session_key) as events, asyncio.timeout(30):
            await parts.service.submit(question)
            await model.wait_for_text(long)
            await parts.database.transact(faults.fill_disk)
            model.let_go(long)
            async for event in events:
                if isinstance(event, Notice):
                    break
            assert (
                "⏳ The database cannot be written right now. This continues as soon as it can"
                in event.text
            )
            await parts.database.transact(faults.free_disk)
            async for event in events:
                if isinstance(event, Delivered):
                    break
            assert event.text.startswith("re: 0 1 2")


@only_sqlite
async def test_watchers_are_notified_of_a_damaged_database(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        await take(parts, chat_message("before"))
        await parts.platform.answers("1", 1)
        root = await parts.database.transact(faults.root_page, "message")
        file = parts.workspace.with_name("kore.db")
    with file.open("r+b") as whole:
        whole.seek((root - 1) * 4096)
        whole.write(b"\xde\xad\xbe\xef" * 1024)
    async with running(tmp_path, Gated(is_open=lambda _: True)) as parts:
        question = console_message("hi")
        async with parts.service.watch(question.session_key) as events, asyncio.timeout(30):
            await parts.service.submit(question)
            with pytest.raises(StoreError, match="is damaged"):
                async for _ in events:
                    pass
        with pytest.raises(StoreError, match="is damaged"):
            await take(parts, chat_message("after"))
        assert str(file) in (parts.bus.obstacle or "")
    assert "Traceback" not in caplog.text
