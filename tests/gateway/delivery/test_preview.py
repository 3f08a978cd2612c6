import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent.events import IterationStart, Retry, TextDelta, ToolResulted, ToolStart
from gateway.channels.base import Ambiguous, NotSent, Streaming
from gateway.core.messages import OutboundPart, Route
from gateway.delivery.preview import PreviewTiming, StreamingPreview
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply
from tests.fakes.gated import Gated
from tests.fakes.platform import Fault, StreamingPlatform
from tests.gateway.parts import Parts, opened, wait_until
from tests.gateway.store import faults

QUICK = PreviewTiming(0, 0, line_after_s=0)
REPLY = OutgoingReply("t1", Route("chat", "bot", "1"), ())


@pytest.fixture
def platform() -> StreamingPlatform:
    return StreamingPlatform()


@pytest.fixture
async def parts(tmp_path: Path, platform: StreamingPlatform) -> AsyncIterator[Parts]:
    async with opened(tmp_path, Gated(), platform=platform) as parts:
        await parts.add("turn", id=1, lane="x", state="running", created_at=0)
        yield parts


@asynccontextmanager
async def running_preview(parts: Parts) -> AsyncIterator[StreamingPreview]:
    """Run a preview without waits; it is closed and ended after the block."""
    assert isinstance(parts.platform, StreamingPlatform)
    preview = StreamingPreview(
        database=parts.database, channel=parts.platform, turn=1, reply=REPLY, timing=QUICK
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(preview.run())
        try:
            yield preview
        finally:
            preview.close()


async def row(parts: Parts) -> tuple[object, ...]:
    rows = await parts.stored("outbox", "state", "provider_message_id", "maybe_duplicate")
    return rows[0] if rows else ()


async def test_row_is_stored_before_the_first_send(
    parts: Parts, platform: StreamingPlatform
) -> None:
    platform.preview_faults.append(Fault(NotSent("down")))
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("one"))
        await platform.until(lambda: ("preview", "1", "one") in platform.calls)
        assert await row(parts) in {("streaming", None, 0), ("streaming", None, 1)}


async def test_undelivered_first_send_leaves_no_mark(
    parts: Parts, platform: StreamingPlatform
) -> None:
    platform.preview_faults.append(Fault(NotSent("down")))
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("one"))
        await platform.until(lambda: ("preview", "1", "one") in platform.calls)
    assert await row(parts) == ("streaming", None, 0)


@pytest.mark.parametrize("way", ["edits", "drafts"])
async def test_preview_waits_for_earlier_messages_of_its_route(
    parts: Parts, platform: StreamingPlatform, way: Streaming
) -> None:
    platform.way = way
    earlier = OutgoingReply("t0", REPLY.route, [OutboundPart("an earlier answer")])
    await parts.database.transact(outbox.put, None, [earlier], 0.0)
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("one"))
        await platform.until(lambda: ("typing", "1", "") in platform.calls)
        assert {call[0] for call in platform.calls} == {"typing"}
        due = await parts.database.transact(outbox.head, REPLY.route.lane, 1.0)
        assert isinstance(due, outbox.PendingPart)
        await parts.database.transact(outbox.sent, due.seq, "m", REPLY.route.lane, 1.0)
        preview.feed(TextDelta(" two"))
        await platform.until(lambda: platform.texts("1") or platform.sketched)
    assert (platform.texts("1") or [platform.sketched["1"]]) == ["one two"]


async def test_message_id_is_stored_before_the_answer_after_a_disk_error(
    parts: Parts, platform: StreamingPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    await parts.database.transact(
        faults.refuse, "UPDATE OF provider_message_id ON outbox", "disk I/O error"
    )
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("one"))
        await wait_until(lambda: "disk I/O error" in caplog.text)
        assert await row(parts) == ("streaming", None, 1)
        await parts.database.transact(faults.allow)
    assert await row(parts) == ("streaming", "1", 0)


async def test_database_error_ends_the_preview_and_not_the_turn(
    parts: Parts, platform: StreamingPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    await parts.database.transact(faults.refuse, "INSERT ON outbox", "disk I/O error")
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("one"))
        await wait_until(lambda: "disk I/O error" in caplog.text)
    assert platform.texts("1") == []


async def test_preview_grows_by_edits_of_one_message(
    parts: Parts, platform: StreamingPlatform
) -> None:
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("one"))
        await platform.until(lambda: platform.texts("1") == ["one"])
        preview.feed(TextDelta(" two"))
        await platform.until(lambda: platform.texts("1") == ["one two"])
    assert await row(parts) == ("streaming", "1", 0)


async def test_text_before_a_tool_stays_in_the_preview(
    parts: Parts, platform: StreamingPlatform
) -> None:
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("I look."))
        preview.feed(IterationStart(2, 9))
        preview.feed(TextDelta("Found."))
        await platform.until(lambda: platform.texts("1") == ["I look.\n\nFound."])


async def test_text_of_a_failed_stream_is_discarded(
    parts: Parts, platform: StreamingPlatform
) -> None:
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("wrong"))
        preview.feed(Retry("cut", 1, 3, 0.1))
        preview.feed(TextDelta("right"))
        await platform.until(lambda: platform.texts("1") == ["right"])


async def test_ambiguous_first_send_is_not_repeated(
    parts: Parts, platform: StreamingPlatform
) -> None:
    platform.preview_faults.append(Fault(Ambiguous("reset"), arrives=True))
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("one"))
        await parts.until_stored("outbox", maybe_duplicate=1)
        preview.feed(TextDelta(" two"))
    assert platform.texts("1") == ["one"]
    assert await row(parts) == ("streaming", None, 1)


async def test_preview_lost_in_a_kill_is_not_repeated(
    parts: Parts, platform: StreamingPlatform
) -> None:
    await parts.database.transact(outbox.begin_stream, 1, REPLY, 0, 0.0)
    await parts.database.transact(outbox.recover)
    assert isinstance(parts.platform, StreamingPlatform)
    preview = StreamingPreview(
        database=parts.database,
        channel=parts.platform,
        turn=1,
        reply=REPLY,
        timing=PreviewTiming(0, 0),
    )
    preview.feed(TextDelta("one"))
    async with asyncio.timeout(30):
        await preview.run()
    assert platform.texts("1") == []
    assert await row(parts) == ("streaming", None, 1)


async def test_resumed_turn_continues_the_existing_message(
    parts: Parts, platform: StreamingPlatform
) -> None:
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("one"))
        await platform.until(lambda: platform.texts("1"))
    await parts.database.transact(outbox.recover)
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("one again"))
        await platform.until(lambda: platform.texts("1") == ["one again"])
    assert await row(parts) == ("streaming", "1", 0)


async def test_typing_is_shown_at_once(parts: Parts, platform: StreamingPlatform) -> None:
    async with running_preview(parts):
        await platform.until(lambda: platform.calls == [("typing", "1", "")])


async def test_closed_preview_shows_nothing_more(parts: Parts, platform: StreamingPlatform) -> None:
    async with running_preview(parts) as preview:
        preview.close()
        preview.feed(TextDelta("late"))
    assert platform.texts("1") == []
    assert await row(parts) == ()


async def test_todo_list_is_shown_below_the_text(parts: Parts, platform: StreamingPlatform) -> None:
    async with running_preview(parts) as preview:
        preview.feed(ToolResulted("1", "todo", "☐ land", False, 0.0, kind="plan"))
        await platform.until(lambda: ("preview", "1", "☐ land\n⏳ Thinking") in platform.calls)
        preview.feed(ToolResulted("2", "todo", "wrong", True, 0.0, kind="plan"))
        preview.feed(TextDelta("one"))
        await platform.until(lambda: ("preview", "1", "one\n\n☐ land") in platform.calls)
        preview.feed(ToolResulted("3", "todo", "☑ land", False, 0.0, kind="plan"))
        await platform.until(
            lambda: ("preview", "1", "one\n\n☑ land\n⏳ Thinking") in platform.calls
        )


READ = ToolStart("1", "read_file", {"path": "x.py"}, "read", "Reading {path}")


async def test_activity_line_disappears_when_the_text_continues(
    parts: Parts, platform: StreamingPlatform
) -> None:
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("one"))
        preview.feed(READ)
        await platform.until(lambda: platform.texts("1") == ["one\n⏳ Reading `x.py`"])
        preview.feed(ToolResulted("1", "read_file", "", False, 0.0))
        preview.feed(TextDelta(" two"))
        await platform.until(lambda: platform.texts("1") == ["one two"])


async def test_activity_without_text_is_shown_only_as_a_draft(
    parts: Parts, platform: StreamingPlatform
) -> None:
    async with running_preview(parts) as preview:
        preview.feed(READ)
        await platform.until(lambda: platform.sketched == {"1": "⏳ Reading `x.py`"})
    assert platform.texts("1") == []
    assert await row(parts) == ()


async def test_drafts_leave_neither_messages_nor_rows(
    parts: Parts, platform: StreamingPlatform
) -> None:
    platform.way = "drafts"
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("one"))
        preview.feed(READ)
        await platform.until(lambda: platform.sketched == {"1": "one\n\n⏳ Reading `x.py`"})
    assert platform.texts("1") == []
    assert await row(parts) == ()


async def test_disabled_preview_shows_only_typing(
    parts: Parts, platform: StreamingPlatform
) -> None:
    platform.way = "off"
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("one"))
        await platform.until(lambda: platform.calls)
    assert {call[0] for call in platform.calls} == {"typing"}


async def test_suspended_turn_is_noted_below_its_text(
    parts: Parts, platform: StreamingPlatform
) -> None:
    async with running_preview(parts) as preview:
        preview.feed(TextDelta("one"))
        await platform.until(lambda: platform.texts("1") == ["one"])
        preview.set_paused("Waiting for an answer")
    assert platform.texts("1") == ["one\n⏳ Waiting for an answer"]
