"""The contract of `gateway.service.Service`, over every implementation of it."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from agent.errors import KoreError
from agent.events import ApprovalAsked, Done, TextDelta
from gateway.client import Client
from gateway.control import ControlServer
from gateway.messages import InboundMessage, Sender
from gateway.service import Delivered, Service, WatchEvent
from tests.fakes.memory_service import MemoryService

DEADLINE_S = 10


def message(chat_id: str, text: str) -> InboundMessage:
    sender = Sender("0", "ann")
    return InboundMessage("cli", "local", chat_id, sender, uuid.uuid4().hex, text, 1.5)


async def until_last(events: AsyncIterator[WatchEvent], event_id: str) -> list[WatchEvent]:
    seen: list[WatchEvent] = []
    async with asyncio.timeout(DEADLINE_S):
        async for event in events:
            seen.append(event)
            if isinstance(event, Delivered) and event.last and event.event_id == event_id:
                return seen
    raise AssertionError("the stream of events ended before the answer")


@pytest.fixture(params=["in-process", "over-socket"])
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Service]:
    async with AsyncExitStack() as stack:
        owner = await stack.enter_async_context(MemoryService())
        if request.param == "in-process":
            yield owner
            return
        path = tmp_path / "kore.sock"
        await stack.enter_async_context(ControlServer(owner, path))
        client = await Client.connect(path)
        assert client is not None
        yield client


async def test_a_message_is_answered_on_the_lane_it_came_from(service: Service) -> None:
    opened = await service.open_console(None, True)
    sent = message(opened.chat_id, "hello \u5b57 \U0001f600")
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        seen = await until_last(events, sent.event_id)
    done = [event for event in seen if isinstance(event, Done)]
    final = "".join(event.text for event in seen if isinstance(event, Delivered))
    assert done[0].result.session_id == opened.session
    assert final == done[0].result.text
    assert "\U0001f600" in final


async def test_deltas_add_up_to_the_answer(service: Service) -> None:
    opened = await service.open_console(None, True)
    sent = message(opened.chat_id, "one two three")
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        seen = await until_last(events, sent.event_id)
    streamed = "".join(event.text for event in seen if isinstance(event, TextDelta))
    assert streamed == next(event.text for event in seen if isinstance(event, Delivered))


async def test_the_turn_is_stored_when_the_answer_is_delivered(service: Service) -> None:
    opened = await service.open_console(None, True)
    sent = message(opened.chat_id, "remember this")
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        await until_last(events, sent.event_id)
    stored = await service.messages(opened.session)
    assert [m.role for m in stored] == ["user", "assistant"]
    assert stored[0].text == "remember this"


async def test_an_answer_that_nobody_watched_waits_for_the_next_watcher(service: Service) -> None:
    opened = await service.open_console(None, True)
    first, second = message(opened.chat_id, "first"), message(opened.chat_id, "second")
    await service.submit(first)
    async with asyncio.timeout(DEADLINE_S):
        while not await service.messages(opened.session):
            await asyncio.sleep(0.005)
    async with service.watch(first.session_key) as events:
        await service.submit(second)
        seen = await until_last(events, second.event_id)
    answered = [event.event_id for event in seen if isinstance(event, Delivered)]
    assert answered == [first.event_id, second.event_id]


async def test_a_bound_lane_talks_in_its_session(service: Service) -> None:
    one, two = await service.open_console(None, True), await service.open_console(None, True)
    sent = message(two.chat_id, "over here")
    assert await service.bind(sent.session_key, one.session) == one.session
    async with service.watch(sent.session_key) as events:
        await service.submit(sent)
        await until_last(events, sent.event_id)
    assert len(await service.messages(one.session)) == 2
    assert not await service.messages(two.session)


async def test_sessions_are_listed_and_limited(service: Service) -> None:
    opened = [await service.open_console(None, True) for _ in range(3)]
    listed = await service.sessions()
    assert {info.id for info in listed} == {place.session for place in opened}
    assert len(await service.sessions(limit=2)) == 2


async def test_an_unknown_session_is_an_error_with_a_sentence(service: Service) -> None:
    with pytest.raises(KoreError, match="19990101_000000"):
        await service.messages("19990101_000000")
    with pytest.raises(KoreError, match="19990101_000000"):
        await service.open_console("19990101_000000", False)


async def test_stop_tells_whether_a_turn_was_running(service: Service) -> None:
    opened = await service.open_console(None, True)
    assert not await service.stop(f"cli:local:{opened.chat_id}")


async def test_an_approval_that_nobody_asked_for_is_refused(service: Service) -> None:
    assert not await service.answer("no-such-nonce", "once", "cli:0")


async def test_status_names_the_process(service: Service) -> None:
    status = await service.status()
    assert isinstance(status["pid"], int)
    assert {"model", "model_hint", "workspace"} <= set(status)


async def test_backup_tells_the_size_of_its_file(service: Service, tmp_path: Path) -> None:
    target = tmp_path / "copy.db"
    assert await service.backup(target) == target.stat().st_size


async def test_replay_of_an_unknown_row_is_an_error(service: Service) -> None:
    with pytest.raises(KoreError):
        await service.replay(999_999)


class TestAWorkingTurn:
    """What only a turn that waits can show; messages that make the in-memory model wait."""

    async def test_a_stopped_turn_ends_as_cancelled(self, service: Service) -> None:
        opened = await service.open_console(None, True)
        sent = message(opened.chat_id, "slow")
        async with service.watch(sent.session_key) as events:
            await service.submit(sent)
            async with asyncio.timeout(DEADLINE_S):
                async for event in events:
                    if isinstance(event, TextDelta):
                        break
            assert await service.stop(sent.session_key)
            seen = await until_last(events, sent.event_id)
        assert [e.result.stopped for e in seen if isinstance(e, Done)] == ["cancelled"]

    async def test_an_approval_is_answered_once(self, service: Service) -> None:
        opened = await service.open_console(None, True)
        sent = message(opened.chat_id, "ask please")
        async with service.watch(sent.session_key) as events:
            await service.submit(sent)
            async with asyncio.timeout(DEADLINE_S):
                asked = await anext(e async for e in events if isinstance(e, ApprovalAsked))
            assert await service.answer(asked.nonce, "session", "cli:0")
            assert not await service.answer(asked.nonce, "once", "cli:0")
            seen = await until_last(events, sent.event_id)
        assert "session" in next(e.text for e in seen if isinstance(e, Delivered))
