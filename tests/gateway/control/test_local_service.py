import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path

import pytest

from agent.errors import KoreError
from agent.events import SessionClosed, SessionCreated, SessionStart, ToolResulted, ToolStart
from agent.providers.pool import ModelPool
from agent.providers.registry import ModelConfig
from agent.subagents.definition import SubagentDefinition
from agent.types import ToolCall, assistant
from gateway.access.control import PairedMembers
from gateway.control.client import ControlClient
from gateway.control.server import ControlServer
from gateway.core.channel_events import Batch
from gateway.core.errors import ConnectionLost
from gateway.core.event_hub import FELL_BEHIND
from gateway.core.messages import InboundMessage, Sender
from gateway.core.records import Delivered, WatchEvent
from gateway.store.errors import StoreError
from tests.fakes.gated import Gated
from tests.gateway.parts import Parts, chat_message, console_message, running
from tests.gateway.store import faults


async def next_delivery(events: AsyncIterator[WatchEvent]) -> Delivered:
    async with asyncio.timeout(30):
        async for event in events:
            if isinstance(event, Delivered):
                return event
    raise AssertionError("the watch ended")


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    async with running(tmp_path, Gated(is_open=lambda text: text != "long")) as parts:
        yield parts


def at(opened_chat: str, text: str) -> InboundMessage:
    return console_message(text, opened_chat)


async def test_answer_goes_to_the_console_that_asked(parts: Parts) -> None:
    message = console_message("hi")
    async with parts.service.watch(message.session_key) as events:
        await parts.service.submit(message)
        answer = await next_delivery(events)
    assert (answer.text, answer.event_id, answer.last) == ("re: hi", message.event_id, True)
    assert not answer.maybe_duplicate


async def test_client_that_does_not_read_is_notified_and_does_not_delay_others(
    parts: Parts, tmp_path: Path
) -> None:
    path, message = tmp_path / "kore.sock", console_message("hi")
    large = ToolResulted("1", "exec", "x" * 1_000_000, False, 0.1)
    async with ControlServer(parts.service, path):
        client = await ControlClient.connect(path)
        assert client is not None
        async with client.watch(message.session_key) as behind:
            while parts.events.is_watched(message.session_key):
                parts.events.publish(message.session_key, large)
                await asyncio.sleep(0)
            async with parts.service.watch(message.session_key) as events:
                await parts.service.submit(message)
                assert (await next_delivery(events)).text == "re: hi"
            with pytest.raises(ConnectionLost, match=FELL_BEHIND):
                await next_delivery(behind)


async def test_late_screen_sees_the_running_call(tmp_path: Path) -> None:
    call = ToolCall("1", "exec", {"command": "sleep 60"}, "")
    message = console_message("go", options={"auto": True})
    async with running(tmp_path, [assistant("", (call,)), "done"]) as parts:
        lane = message.session_key
        async with asyncio.timeout(30), parts.service.watch(lane) as first:
            await parts.service.submit(message)
            while not isinstance(started := await anext(first), ToolStart):
                pass
            async with parts.service.watch(lane) as late:
                assert await anext(late) == started
            await parts.service.stop_turn(lane)
            await next_delivery(first)
        with parts.events.watch(lane) as later:
            later.close()
            assert [event async for event in later] == []


async def test_consoles_get_separate_chats(parts: Parts) -> None:
    first = await parts.service.open_console(None, fresh=True)
    second = await parts.service.open_console(None, fresh=True)
    assert first.chat_id != second.chat_id


async def test_consoles_opened_concurrently_get_separate_chats(parts: Parts) -> None:
    await parts.service.submit(console_message("hi"))
    await parts.until_stored("turn", state="done")
    async with parts.service.watch("cli:local:main") as events:
        await next_delivery(events)
    opened = await asyncio.gather(*(parts.service.open_console(None, fresh=True) for _ in range(3)))
    assert len({item.chat_id for item in opened}) == 3


async def test_chat_that_failed_to_open_is_free_again(parts: Parts) -> None:
    with pytest.raises(KoreError, match="no session"):
        await parts.service.open_console("none", fresh=False)
    assert (await parts.service.open_console(None, fresh=True)).chat_id == "main"


async def test_reopened_console_continues_its_chat(parts: Parts) -> None:
    await parts.service.submit(console_message("hi"))
    await parts.until_stored("outbox")
    opened = await parts.service.open_console(None, fresh=True)
    assert (opened.chat_id, opened.unfinished) == ("main", True)
    assert opened.session is not None
    async with parts.service.watch("cli:local:main") as events:
        assert (await next_delivery(events)).text == "re: hi"


async def test_unfinished_work_of_another_folder_stays_there(parts: Parts, tmp_path: Path) -> None:
    own, here = str(tmp_path / "own"), str(tmp_path / "here")
    await parts.service.submit(console_message("hi", options={"cwd": own}))
    await parts.until_stored("outbox")
    elsewhere = await parts.service.open_console(None, True, here)
    session = (await parts.service.list_sessions(1))[0].id
    assert (elsewhere.chat_id, elsewhere.unfinished) == ("main-2", False)
    assert elsewhere.passed_over == session
    back = await parts.service.open_console(None, True, own)
    assert (back.chat_id, back.unfinished, back.session) == ("main", True, session)
    assert back.passed_over is None


async def test_watchers_see_a_conversation_begin_and_close(parts: Parts) -> None:
    first, second = console_message("hi"), console_message("again")
    async with parts.service.watch(first.session_key) as events:
        await parts.service.submit(first)
        created = await anext(events)
        assert isinstance(created, SessionCreated)
        assert created.name == "hi"
        await next_delivery(events)
        await parts.service.submit(second)
        assert isinstance(await anext(events), SessionStart)
        await next_delivery(events)
        await parts.service.set_session_status(created.session_id, "paused")
        await parts.service.set_session_status(created.session_id, "closed")
        assert await anext(events) == SessionClosed(created.session_id, "hi")


async def test_model_of_the_active_agent_is_reported(tmp_path: Path) -> None:
    other = ModelConfig("other", "offline/echo", context_tokens=50_000)
    critic = asdict(SubagentDefinition("critic", "Finds mistakes.", "Be a critic.", model="other"))
    words = ("/status", "/context", "/model offline/echo", "/status")
    async with running(tmp_path, ModelPool("offline/echo", known=(other,))) as parts:
        results = []
        for message in (console_message(word, options={"agent": critic}) for word in words):
            async with parts.service.watch(message.session_key) as events:
                await parts.service.submit(message)
                results.append((await next_delivery(events)).text)
    assert "Model: other" in results[0].replace("`", "")
    assert "of 50,000 tokens" in results[1]
    assert "Model: offline/echo" in results[3].replace("`", "")


async def test_fork_begins_a_conversation(parts: Parts) -> None:
    first, fork, second = console_message("hi"), console_message("/fork"), console_message("on")
    async with parts.service.watch(first.session_key) as events:
        for message in (first, fork):
            await parts.service.submit(message)
            await next_delivery(events)
        await parts.service.submit(second)
        created = await anext(events)
        assert isinstance(created, SessionCreated)
        assert created.session_id == (await parts.service.list_sessions(1))[0].id


async def test_session_id_may_be_abbreviated(parts: Parts) -> None:
    session = await parts.service.bind_session("cli:local:other", None)
    opened = await parts.service.open_console(session[:13], fresh=False)
    assert opened.session == session
    with pytest.raises(KoreError, match="no session"):
        await parts.service.open_console("nope", fresh=False)


async def test_resuming_a_paused_session_opens_it(parts: Parts) -> None:
    session = await parts.service.bind_session("cli:local:other", None)
    for named in (session, None):
        await parts.service.set_session_status(session, "paused")
        opened = await parts.service.open_console(named, fresh=False)
        assert opened.session == session
        (info,) = await parts.service.list_sessions()
        assert info.status == "idle"


async def test_paused_session_does_not_block_the_console(parts: Parts) -> None:
    session = await parts.service.bind_session("cli:local:main", None)
    await parts.service.set_session_status(session, "paused")
    async with parts.service.watch("cli:local:main") as events:
        for text in ("one", "two"):
            message = console_message(text)
            await parts.service.submit(message)
            delivered = await next_delivery(events)
            assert (delivered.event_id, delivered.kind, delivered.last) == (
                message.event_id,
                "notice",
                True,
            )
            assert "/resume" in delivered.text
    opened = await parts.service.open_console(None, fresh=True)
    assert (opened.chat_id, opened.unfinished) == ("main-2", False)
    async with parts.service.watch("cli:local:main") as events:
        await parts.service.bind_session("cli:local:main", session)
        assert [(await next_delivery(events)).text for _ in range(2)] == ["re: one", "re: two"]


async def test_stop_from_a_screen_stops_only_the_running_turn(parts: Parts) -> None:
    message = console_message("long")
    lane = message.session_key
    assert not await parts.service.stop_turn(lane)
    async with parts.service.watch(lane) as events:
        await parts.service.submit(message)
        await parts.until_stored("turn", state="running")
        assert await parts.service.stop_turn(lane)
        assert "Stopped" in (await next_delivery(events)).text
        assert not await parts.service.stop_turn(lane)


async def test_status_counts_running_work(parts: Parts) -> None:
    await parts.bus.accept("chat", "bot", Batch([chat_message("long")]))
    await parts.until_stored("turn", state="running")
    status = await parts.service.status()
    assert (status["lanes_busy"], status["messages_waiting"]) == (1, 0)
    assert (status["routes_with_mail"], status["parts_given_up"]) == (0, 0)


async def test_finished_message_can_be_replayed(parts: Parts) -> None:
    await parts.bus.accept("chat", "bot", Batch([chat_message("hi")]))
    await parts.platform.answers("1", 1)
    await parts.until_stored("turn", state="done")
    assert "chat:bot:1" in await parts.service.replay(1)
    assert await parts.platform.answers("1", 2) == ["re: hi", "re: hi"]
    with pytest.raises(KoreError, match="no message"):
        await parts.service.replay(99)


async def test_backup_is_made_during_work(parts: Parts, tmp_path: Path) -> None:
    assert await parts.service.backup(tmp_path / "copy.db") > 0


async def test_unstored_decision_changes_no_access(parts: Parts) -> None:
    access = parts.app.access
    message = chat_message("hi", "8", sender=Sender("8", "Eve"))
    code = await parts.database.transact(parts.app.codes.ask, message, time.time())
    assert code is not None
    await parts.database.transact(faults.refuse, "INSERT ON audit_outbox", "the disk is full")
    with pytest.raises(StoreError):
        await parts.service.approve_pairing(code)
    assert access.members == PairedMembers()
    await parts.database.transact(faults.allow)
    await parts.service.approve_pairing(code)
    members = access.members
    assert members.owner == message.principal
    await parts.database.transact(faults.refuse, "INSERT ON audit_outbox", "the disk is full")
    with pytest.raises(StoreError):
        await parts.service.revoke_pairing(message.principal)
    assert access.members == members
