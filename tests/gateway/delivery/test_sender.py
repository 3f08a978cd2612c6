import asyncio
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from gateway.channels.base import (
    Ambiguous,
    BadFormat,
    ChannelRateLimited,
    ChatUnreachable,
    MessageNotFound,
    MessageRefused,
    NotSent,
)
from gateway.core.messages import OutboundFile, OutboundMessage, OutboundPart, Route
from gateway.delivery.outbound_files import FOLDER
from gateway.delivery.retry_policy import RETRY_TIMEOUT_S
from gateway.delivery.sender import LOST, MAX_TASKS, BestEffortTasks, wait_for
from gateway.resources import Timing
from gateway.store.cipher import Cipher
from gateway.store.port import Transaction
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply, PendingPart
from tests.fakes.gated import Gated
from tests.fakes.platform import CarryingPlatform, Fault, Platform, StreamingPlatform
from tests.gateway import stored
from tests.gateway.parts import Parts, at_work, console_message, opened, wait_until
from tests.gateway.store import faults
from tests.gateway.stored import above


class Jumping:
    """Clock that skips every sleep and records its length."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.rests: list[float] = []

    def time(self) -> float:
        return self.now

    async def wait(self, wake: asyncio.Event, seconds: float) -> None:
        self.rests.append(seconds)
        self.now += max(0.0, seconds)
        await asyncio.sleep(0)


class ProbedPlatform(Platform):
    """`Platform` that can be probed; it fails the next `down_for` probes."""

    down_for = 0

    async def probe(self) -> None:
        if self.down_for:
            self.down_for -= 1
            raise NotSent("still down")


@pytest.fixture
def clock() -> Jumping:
    return Jumping()


def route(chat: str = "1") -> Route:
    return Route("chat", "bot", chat)


def outgoing_reply(text: str, chat: str = "1", *more: str) -> OutgoingReply:
    parts = [OutboundPart(item) for item in (text, *more)]
    return OutgoingReply(f"d:{chat}:{text}", route(chat), parts)


async def sent(
    folder: Path, clock: Jumping, platform: Platform, *replies: OutgoingReply
) -> list[tuple[str, str | None]]:
    """Post the replies, work until all are sent or dead, and return their states and reasons."""
    timing = Timing(sender_clock=clock.time, sender_wait=clock.wait)
    async with opened(folder, Gated(), platform=platform, timing=timing) as parts:
        for reply in replies:
            await parts.sender.post(reply)
        async with at_work(parts):
            async with asyncio.timeout(30):
                while await parts.database.transact(outbox.lanes_with_mail):
                    await asyncio.sleep(0.001)
        return await parts.stored("outbox", "state", "dead_reason", kind="final", order="seq")


async def test_parts_of_a_route_leave_in_order(tmp_path: Path, clock: Jumping) -> None:
    platform = Platform()
    platform.fail("1", NotSent("dns"), ChannelRateLimited(3), NotSent("dns"))
    replies = [outgoing_reply("a", "1", "b", "c"), outgoing_reply("d")]
    assert {state for state, _ in await sent(tmp_path, clock, platform, *replies)} == {"sent"}
    assert platform.texts("1") == ["a", "b", "c", "d"]
    assert not any(shown.repeat for shown in platform.chats["1"])


async def test_slow_or_failing_route_does_not_delay_others(tmp_path: Path) -> None:
    platform = Platform()
    platform.blocked.add("1")
    platform.fail("2", NotSent("down"))
    async with opened(tmp_path, Gated(), platform=platform) as parts, at_work(parts):
        for chat in ("1", "2", "3"):
            await parts.sender.post(outgoing_reply("x", chat))
        assert await platform.answers("3", 1) == ["x"]
        assert platform.texts("1") == platform.texts("2") == []
        platform.unblock("1")
        assert await platform.answers("1", 1) == ["x"]


async def test_text_with_rejected_formatting_is_sent_plain(tmp_path: Path, clock: Jumping) -> None:
    platform = Platform()
    platform.fail("1", BadFormat("can't parse"))
    bold = OutgoingReply("d", route(), platform.render("**bold** move"))
    assert await sent(tmp_path, clock, platform, bold) == [("sent", None)]
    (shown,) = platform.chats["1"]
    assert (shown.text, shown.bold, shown.repeat) == ("bold move", False, False)


async def test_plain_text_with_rejected_formatting_is_abandoned(
    tmp_path: Path, clock: Jumping
) -> None:
    platform = Platform()
    platform.fail("1", BadFormat("can't parse"))
    states = await sent(tmp_path, clock, platform, outgoing_reply("x"), outgoing_reply("y"))
    assert states == [("dead", "can't parse"), ("sent", None)]


async def test_rejected_message_does_not_block_the_next(tmp_path: Path, clock: Jumping) -> None:
    platform = Platform()
    platform.fail("1", MessageRefused("too odd"))
    states = await sent(tmp_path, clock, platform, outgoing_reply("x"), outgoing_reply("y"))
    assert states == [("dead", "too odd"), ("sent", None)]


async def test_unreachable_chat_drops_all_its_messages(tmp_path: Path, clock: Jumping) -> None:
    platform = Platform()
    platform.fail("1", ChatUnreachable("blocked"))
    replies = [outgoing_reply("a"), outgoing_reply("b"), outgoing_reply("c", "2")]
    states = await sent(tmp_path, clock, platform, *replies)
    assert states == [("dead", "blocked"), ("dead", "blocked"), ("sent", None)]
    assert [call for call in platform.calls if call[1] == "1"] == [("send", "1", "a")]


async def test_ambiguous_send_is_repeated_with_a_mark(tmp_path: Path, clock: Jumping) -> None:
    platform = Platform()
    platform.fail("1", Fault(Ambiguous("reset"), arrives=True))
    assert await sent(tmp_path, clock, platform, outgoing_reply("x")) == [("sent", None)]
    assert [shown.repeat for shown in platform.chats["1"]] == [False, True]


async def test_message_is_abandoned_after_three_ambiguous_sends(
    tmp_path: Path, clock: Jumping
) -> None:
    platform = Platform()
    platform.fail("1", *(Fault(Ambiguous("reset"), arrives=True) for _ in range(3)))
    ((state, reason),) = await sent(tmp_path, clock, platform, outgoing_reply("x"))
    assert (state, reason) == ("dead", "unclear 3 times: reset")
    assert platform.texts("1") == ["x", "x", "x", LOST]


async def test_ambiguous_send_is_not_retried_while_the_platform_is_down(
    tmp_path: Path, clock: Jumping
) -> None:
    platform = ProbedPlatform()
    platform.fail("1", *(Ambiguous("502") for _ in range(2)))
    platform.down_for = 40
    assert await sent(tmp_path, clock, platform, outgoing_reply("x")) == [("sent", None)]
    assert platform.down_for == 0
    assert len(platform.calls) == 3
    assert max(clock.rests) > 300


async def test_last_retry_of_an_ambiguous_send_is_delayed(tmp_path: Path, clock: Jumping) -> None:
    platform = Platform()
    platform.fail("1", *(Ambiguous("502") for _ in range(2)))
    assert await sent(tmp_path, clock, platform, outgoing_reply("x")) == [("sent", None)]
    assert clock.rests[0] < 5 < 20 < clock.rests[1]


async def test_chat_is_notified_once_of_missing_parts(tmp_path: Path, clock: Jumping) -> None:
    platform = Platform()
    platform.fail("1", MessageRefused("too odd"), MessageRefused("too odd"))
    states = await sent(tmp_path, clock, platform, outgoing_reply("a", "1", "b", "c"))
    assert [state for state, _ in states] == ["dead", "dead", "sent"]
    assert platform.texts("1") == ["c", LOST]


async def test_rejected_notice_is_not_followed_by_another(tmp_path: Path, clock: Jumping) -> None:
    platform = Platform()
    platform.fail("1", *(MessageRefused("too odd") for _ in range(5)))
    assert await sent(tmp_path, clock, platform, outgoing_reply("x")) == [("dead", "too odd")]
    assert [call[2] for call in platform.calls] == ["x", LOST]


async def test_abandoned_messages_are_counted_and_reported_to_the_owner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    platform = Platform()
    platform.fail("1", ChatUnreachable("blocked"))
    async with opened(tmp_path, Gated(), platform=platform) as parts:
        for text in ("secret a", "secret b"):
            await parts.sender.post(outgoing_reply(text))
        async with at_work(parts):
            await wait_until(lambda: parts.sender.given_up_count == 2)
    (result,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert "2 messages to chat:bot:1" in result.getMessage()
    assert "blocked" in result.getMessage()


async def test_retry_after_of_the_platform_is_respected(tmp_path: Path, clock: Jumping) -> None:
    platform = Platform()
    platform.fail("1", ChannelRateLimited(77))
    assert await sent(tmp_path, clock, platform, outgoing_reply("x")) == [("sent", None)]
    assert clock.rests[0] == pytest.approx(77)


async def test_unsent_message_is_retried_for_a_day_with_backoff(
    tmp_path: Path, clock: Jumping
) -> None:
    platform = Platform()
    began = clock.now
    platform.fail("1", *(NotSent("down") for _ in range(500)))
    ((state, reason),) = await sent(tmp_path, clock, platform, outgoing_reply("x"))
    assert state == "dead"
    assert reason == "gave up after a day: down"
    assert clock.now - began >= RETRY_TIMEOUT_S
    assert clock.rests[0] < 5 < clock.rests[-1]


async def test_old_message_is_still_retried(tmp_path: Path, clock: Jumping) -> None:
    platform = Platform()
    async with opened(tmp_path, Gated()) as parts:
        await parts.database.transact(outbox.put, None, [outgoing_reply("x")], 0.0)
    platform.fail("1", NotSent("the network is not up yet"))
    assert await sent(tmp_path, clock, platform) == [("sent", None)]


class NoticingPlatform(Platform):
    """`Platform` that can report its recovery."""

    def when_reachable(self, call: Callable[[], None]) -> None:
        self.is_back = call


async def test_delayed_messages_are_retried_when_the_platform_recovers(
    tmp_path: Path,
) -> None:
    platform = NoticingPlatform()
    platform.fail("1", NotSent("down"))
    platform.fail("2", ChannelRateLimited(60))

    async def until_woken(wake: asyncio.Event, seconds: float) -> None:
        await wake.wait()

    timing = Timing(sender_wait=until_woken)
    async with opened(tmp_path, Gated(), platform=platform, timing=timing) as parts:
        async with at_work(parts):
            for chat in ("1", "2"):
                await parts.sender.post(outgoing_reply("x", chat))
            await parts.until_count(2, "outbox", attempts=1)
            platform.is_back()
            assert await platform.answers("1", 1) == ["x"]
        # A chat that the platform asked to wait still waits.
        assert platform.texts("2") == []


async def test_bug_in_a_channel_loses_only_one_part(tmp_path: Path, clock: Jumping) -> None:
    platform = Platform()
    platform.fail("1", *(ValueError("a bug") for _ in range(3)))
    states = await sent(
        tmp_path,
        clock,
        platform,
        outgoing_reply("x"),
        outgoing_reply("y"),
        outgoing_reply("z", "2"),
    )
    assert [state for state, _ in states] == ["dead", "sent", "sent"]


async def test_message_in_flight_at_a_kill_is_resent_with_a_mark(tmp_path: Path) -> None:
    platform = Platform()
    platform.blocked.add("1")
    async with opened(tmp_path, Gated(), platform=platform) as parts, at_work(parts):
        await parts.sender.post(outgoing_reply("x", "1", "y"))
        await parts.until_stored("outbox", state="inflight")
    async with opened(tmp_path, Gated()) as parts, at_work(parts):
        assert await parts.platform.answers("1", 2) == ["x", "y"]
        assert [shown.repeat for shown in parts.platform.chats["1"]] == [True, False]


async def test_unstorable_outcome_does_not_send_again(tmp_path: Path, clock: Jumping) -> None:
    refusals: list[float] = []

    async def wait(wake: asyncio.Event, seconds: float) -> None:
        refusals.append(seconds)
        if len(refusals) == 3:
            await parts.database.transact(faults.allow)
        await asyncio.sleep(0)

    timing = Timing(sender_clock=clock.time, sender_wait=wait)
    async with opened(tmp_path, Gated(), timing=timing) as parts:
        await parts.database.transact(
            faults.refuse, "UPDATE ON outbox", "disk I/O error", "NEW.state = 'sent'"
        )
        async with at_work(parts):
            await parts.sender.post(outgoing_reply("x"))
            await parts.until_stored("outbox", state="sent")
        assert parts.platform.texts("1") == ["x"]


async def test_message_for_a_stopped_channel_is_not_attempted(tmp_path: Path) -> None:
    async with opened(tmp_path, Gated()) as parts, at_work(parts):
        await parts.sender.post(
            OutgoingReply("d", Route("telegram", "main", "1"), [OutboundPart("x")])
        )
        await wait_until(lambda: parts.sender.routes == 0)
        assert await parts.stored("outbox", "state", "attempts") == [("pending", 0)]


async def test_clean_shutdown_does_not_wait_for_unread_messages(tmp_path: Path) -> None:
    async with opened(tmp_path, Gated()) as parts, at_work(parts):
        await parts.sender.post(OutgoingReply("d", console_message("").route, [OutboundPart("x")]))
        await parts.until_stored("outbox", next_at=above(0))
        async with asyncio.timeout(30):
            await parts.sender.flush()
        assert await parts.stored("outbox", "state") == [("pending",)]


async def test_clean_shutdown_waits_for_messages_being_sent(tmp_path: Path) -> None:
    platform = Platform()
    platform.blocked.add("1")
    async with opened(tmp_path, Gated(), platform=platform) as parts, at_work(parts):
        await parts.sender.post(outgoing_reply("x"))
        await platform.until(lambda: platform.calls)
        flushed = asyncio.create_task(parts.sender.flush())
        await asyncio.sleep(0.01)
        assert not flushed.done()
        platform.unblock("1")
        await flushed
        assert platform.texts("1") == ["x"]


async def test_reconnected_console_gets_its_messages_at_once(tmp_path: Path) -> None:
    lane = console_message("").session_key
    async with opened(tmp_path, Gated()) as parts, at_work(parts):
        await parts.sender.post(OutgoingReply("d", console_message("").route, [OutboundPart("x")]))
        await parts.until_stored("outbox", next_at=above(0))
        await parts.change("outbox", {"next_at": time.time() + 3600})
        async with asyncio.timeout(30), parts.service.watch(lane) as events:
            delivered = await anext(events)
        assert getattr(delivered, "text", None) == "x"


async def test_edit_of_a_deleted_message_becomes_a_new_message(
    tmp_path: Path, clock: Jumping
) -> None:
    platform = Platform()
    async with opened(tmp_path, Gated()) as parts:
        await _streaming(parts, "77")
    assert await sent(tmp_path, clock, platform) == [("sent", None)]
    assert platform.calls == [("edit", "1", "final"), ("send", "1", "final")]


async def test_ambiguous_edits_do_not_count_against_the_new_message(
    tmp_path: Path, clock: Jumping
) -> None:
    platform = Platform()
    async with opened(tmp_path, Gated()) as parts:
        await _streaming(parts, "77")
    unclear = Ambiguous("reset")
    platform.fail("1", unclear, unclear, unclear, MessageNotFound("deleted"), unclear)
    assert await sent(tmp_path, clock, platform) == [("sent", None)]
    (shown,) = platform.chats["1"]
    assert (shown.text, shown.repeat) == ("final", True)


async def test_edit_is_repeated_without_a_mark(tmp_path: Path, clock: Jumping) -> None:
    platform = StreamingPlatform()
    await platform.preview(route(), OutboundPart("fin"), None)
    async with opened(tmp_path, Gated()) as parts:
        await _streaming(parts, "1")
        (due,) = await parts.stored("outbox", "seq")
        await parts.database.transact(outbox.take, *due)
    platform.fail("1", *(Fault(Ambiguous("reset"), arrives=True) for _ in range(5)))
    assert await sent(tmp_path, clock, platform) == [("sent", None)]
    (shown,) = platform.chats["1"]
    assert (shown.text, shown.repeat) == ("final", False)


def _put_and_take(tx: Transaction, reply: OutgoingReply) -> PendingPart | None:
    outbox.put(tx, None, [reply], 0.0)
    return outbox.take_first(tx, reply.delivery_id)


async def _send_first(parts: Parts, platform: Platform) -> None:
    """Send a first reply, so that the sender runs and the route is idle."""
    await parts.sender.post(outgoing_reply("first"))
    await platform.answers("1", 1)
    await parts.sender.flush()


async def test_message_claimed_in_its_transaction_is_sent_once(tmp_path: Path) -> None:
    platform = Platform()
    async with opened(tmp_path, Gated(), platform=platform) as parts, at_work(parts):
        await _send_first(parts, platform)
        reply = outgoing_reply("a", "1", "b")
        with parts.sender.direct_send(reply) as direct:
            assert direct is not None
            direct.part = await parts.database.transact(_put_and_take, reply)
            assert direct.part is not None
            parts.sender.wake(route().lane)
            await parts.sender.post(outgoing_reply("c"))
        await platform.answers("1", 4)
        await parts.sender.flush()
        assert platform.texts("1") == ["first", "a", "b", "c"]
        assert not any(shown.repeat for shown in platform.chats["1"])
        assert await parts.stored("outbox", "state") == [("sent",)] * 4


async def test_claimed_message_is_sent_despite_a_failed_handover(tmp_path: Path) -> None:
    platform = Platform()

    async def break_off(parts: Parts, reply: OutgoingReply) -> None:
        with parts.sender.direct_send(reply) as direct:
            assert direct is not None
            assert await parts.database.transact(_put_and_take, reply)
            raise LookupError

    async with opened(tmp_path, Gated(), platform=platform) as parts, at_work(parts):
        await _send_first(parts, platform)
        with pytest.raises(LookupError):
            await break_off(parts, outgoing_reply("a"))
        assert await platform.answers("1", 2) == ["first", "a"]
        assert not any(shown.repeat for shown in platform.chats["1"])


async def test_direct_send_is_refused_for_a_busy_route(tmp_path: Path) -> None:
    platform = Platform()
    platform.blocked.add("1")
    async with opened(tmp_path, Gated(), platform=platform) as parts, at_work(parts):
        await parts.sender.post(outgoing_reply("a"))
        with parts.sender.direct_send(outgoing_reply("b")) as direct:
            assert direct is None
        assert await parts.database.transact(_put_and_take, outgoing_reply("b")) is None
        parts.sender.wake(route().lane)
        platform.unblock("1")
        assert await platform.answers("1", 2) == ["a", "b"]


async def test_message_claimed_by_an_ended_process_is_marked(
    tmp_path: Path, clock: Jumping
) -> None:
    platform = Platform()
    async with opened(tmp_path, Gated()) as parts:
        assert await parts.database.transact(_put_and_take, outgoing_reply("a"))
    assert await sent(tmp_path, clock, platform) == [("sent", None)]
    (shown,) = platform.chats["1"]
    assert (shown.text, shown.repeat) == ("a", True)


async def _streaming(parts: Parts, provider_message_id: str) -> None:
    """Store a reply whose preview is shown and whose final waits to be sent."""
    await parts.add("turn", id=1, lane="x", state="done", created_at=0)
    final = outgoing_reply("final")
    await parts.database.transact(outbox.begin_stream, 1, final, 0, 0.0)
    await parts.database.transact(outbox.set_preview, final.delivery_id, 0, provider_message_id)
    await parts.database.transact(outbox.put, 1, [final], 0.0)


async def test_wait_ends_at_the_event_or_the_timeout() -> None:
    wake = asyncio.Event()
    await wait_for(wake, -5)
    await wait_for(wake, 0.001)
    wake.set()
    await wait_for(wake, 3600)


async def test_channel_is_found_by_its_route(tmp_path: Path) -> None:
    async with opened(tmp_path, Gated()) as parts:
        renderer = parts.app.renderer
        assert renderer.channel(route()) is parts.platform
        assert renderer.channel(Route("chat", "other", "1")) is None
        assert renderer.render(Route("x", "y", "z"), "**a**") == [OutboundPart("**a**")]


async def test_files_are_sent_if_the_platform_supports_them(tmp_path: Path, clock: Jumping) -> None:
    platform = CarryingPlatform()
    files = (OutboundFile("a.md", text="# a"), OutboundFile("b.md", text="# b"))
    album = OutgoingReply("d:f", route(), [OutboundPart("both", files=files)])
    assert (
        await sent(tmp_path, clock, platform, album, outgoing_reply("behind"))
        == [("sent", None)] * 2
    )
    assert platform.texts("1") == ["[a.md, b.md] both", "behind"]


async def test_files_are_named_if_the_platform_does_not_support_them(
    tmp_path: Path, clock: Jumping
) -> None:
    platform = Platform()
    file = OutgoingReply(
        "d:f", route(), [OutboundPart("see", files=(OutboundFile("a.md", text="a"),))]
    )
    assert await sent(tmp_path, clock, platform, file) == [("sent", None)]
    assert platform.texts("1") == ["see\n\n📎 Could not be sent: a.md."]


async def test_chat_that_rejects_files_gets_the_text_and_later_messages(
    tmp_path: Path, clock: Jumping
) -> None:
    platform = CarryingPlatform()
    platform.fail("1", ChatUnreachable("not enough rights to send documents"))
    file = OutgoingReply("d:f", route(), [OutboundPart("", files=(OutboundFile("a.md", "/a"),))])
    assert await sent(tmp_path, clock, platform, file, outgoing_reply("behind")) == [
        ("sent", None),
        ("sent", None),
    ]
    note = "📎 Not sent, because this chat does not allow it: a.md."
    assert platform.texts("1") == [note, "behind"]


async def test_chat_that_rejects_files_and_text_is_unreachable(
    tmp_path: Path, clock: Jumping
) -> None:
    platform = CarryingPlatform()
    platform.fail("1", ChatUnreachable("no files"), ChatUnreachable("blocked"))
    file = OutgoingReply("d:f", route(), [OutboundPart("", files=(OutboundFile("a.md", "/a"),))])
    ends = await sent(tmp_path, clock, platform, file, outgoing_reply("behind"))
    assert ends == [("dead", "blocked"), ("dead", "blocked")]


class TextPlatform(CarryingPlatform):
    """`CarryingPlatform` whose chats refuse files.

    It can render a long answer as a message for each line.
    """

    async def send_files(self, message: OutboundMessage) -> str:
        raise ChatUnreachable("not enough rights to send documents")

    def render_whole(self, markdown: str) -> list[OutboundPart]:
        return [OutboundPart(line) for line in markdown.splitlines()]


async def test_rest_of_an_answer_in_a_rejected_file_becomes_messages(
    tmp_path: Path, clock: Jumping
) -> None:
    platform = TextPlatform()
    whole = OutboundFile("answer.md", text="one\ntwo\nhttps://evil.example/x")
    answer = OutgoingReply(
        "d:f", route(), [OutboundPart("one"), OutboundPart("It continues.", files=(whole,))]
    )
    assert await sent(tmp_path, clock, platform, answer) == [("sent", None)] * 3
    assert platform.texts("1") == ["one", "two", "https://evil.example/x"]
    assert platform.chats["1"][2].bold


async def test_rest_of_an_answer_precedes_waiting_messages(tmp_path: Path, clock: Jumping) -> None:
    platform = TextPlatform()
    whole = OutboundFile("answer.md", text="one\ntwo\nthree\nfour")
    answer = OutgoingReply(
        "d:f", route(), [OutboundPart("one"), OutboundPart("It continues.", files=(whole,))]
    )
    later = [outgoing_reply("next"), outgoing_reply("last")]
    assert await sent(tmp_path, clock, platform, answer, *later) == [("sent", None)] * 6
    assert platform.texts("1") == ["one", "two", "three", "four", "next", "last"]


async def test_rest_of_an_answer_belongs_to_its_turn(tmp_path: Path) -> None:
    whole = OutboundFile("answer.md", text="one\ntwo\nthree")
    answer = OutgoingReply("t1", route(), [OutboundPart("It continues.", files=(whole,))])

    def put(tx: Transaction) -> None:
        stored.add(tx, "turn", id=1, lane=answer.route.lane, state="done", progress=1, created_at=1)
        outbox.put(tx, 1, [answer], 1.0)

    async with opened(tmp_path, Gated(), platform=TextPlatform()) as parts:
        await parts.database.transact(put)
        async with at_work(parts):
            await parts.until_count(3, "outbox", state="sent")
        assert await parts.stored("outbox", "turn_id") == [(1,)] * 3


def reply_with_copy(folder: Path) -> tuple[Path, OutgoingReply]:
    """Return a copy of a file and a reply that carries it."""
    copy = folder / FOLDER / "c0ffee"
    copy.parent.mkdir()
    copy.write_bytes(b"content")
    file = OutboundFile("a.txt", str(copy), size_bytes=7)
    return copy, OutgoingReply("d:f", route(), [OutboundPart("", files=(file,))])


async def test_file_copy_is_kept_until_delivery_is_recorded(tmp_path: Path) -> None:
    platform = CarryingPlatform()
    copy, reply = reply_with_copy(tmp_path)
    refused = asyncio.Event()

    async def wait(wake: asyncio.Event, seconds: float) -> None:
        refused.set()
        await asyncio.Event().wait()

    timing = Timing(sender_wait=wait)
    async with opened(tmp_path, Gated(), platform=platform, timing=timing) as parts:
        await parts.database.transact(
            faults.refuse, "UPDATE ON outbox", "disk full", "NEW.state = 'sent'"
        )
        async with at_work(parts):
            await parts.sender.post(reply)
            async with asyncio.timeout(30):
                await refused.wait()
    assert len(platform.chats["1"]) == 1
    assert copy.exists()
    async with opened(tmp_path, Gated(), platform=platform) as parts, at_work(parts):
        await parts.until_stored("outbox", state="sent")
        await wait_until(lambda: not copy.exists())
        assert [shown.repeat for shown in platform.chats["1"]] == [False, True]
        assert await parts.stored("outbox", "dead_reason", state="dead") == []


async def test_file_copy_of_an_abandoned_message_is_deleted(tmp_path: Path, clock: Jumping) -> None:
    copy, reply = reply_with_copy(tmp_path)
    assert await sent(tmp_path, clock, Platform(), reply) == [("sent", None)]
    assert not copy.exists()


class ReactingPlatform(Platform):
    """`Platform` whose clearing of reactions never returns, or raises an error."""

    def __init__(self, breaks: bool = False) -> None:
        super().__init__()
        self.breaks = breaks
        self.answering = 0
        self.ended = 0

    @property
    def shows_reactions(self) -> bool:
        return True

    async def show_received(self, route: Route, message_id: str | None) -> None:
        return

    async def clear_reactions(self, message: OutboundMessage, left: frozenset[str]) -> None:
        self.answering += 1
        try:
            if self.breaks:
                raise RuntimeError("a bug")
            await asyncio.Event().wait()
        finally:
            self.ended += 1


@pytest.mark.parametrize("breaks", [False, True])
async def test_answers_do_not_wait_for_earlier_reactions(tmp_path: Path, breaks: bool) -> None:
    platform = ReactingPlatform(breaks)
    many = MAX_TASKS + 3
    async with opened(tmp_path, [], platform=platform) as parts, at_work(parts):
        for n in range(many):
            reply = OutgoingReply(f"d{n}", Route("chat", "bot", "1"), [OutboundPart(f"answer {n}")])
            await parts.sender.post(reply)
        assert await platform.answers("1", many) == [f"answer {n}" for n in range(many)]
        await parts.sender.flush()
        await wait_until(lambda: platform.answering >= min(many, MAX_TASKS))
        assert breaks or platform.answering == MAX_TASKS
    assert platform.ended == platform.answering


async def test_work_after_an_answer_times_out() -> None:
    platform = ReactingPlatform()
    message = OutboundMessage("d", 0, Route("chat", "bot", "1"), OutboundPart("x"))
    aftermath = BestEffortTasks(lasts_s=0.01)
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        for _ in range(2):
            aftermath.begin(group, partial(platform.clear_reactions, message, frozenset()))
    assert (platform.answering, platform.ended) == (2, 2)


async def test_rejected_route_pauses_until_the_next_start(
    tmp_path: Path, clock: Jumping, caplog: pytest.LogCaptureFixture
) -> None:
    timing = Timing(sender_clock=clock.time, sender_wait=clock.wait)
    async with opened(tmp_path, Gated(), timing=timing) as parts:
        await parts.database.transact(
            faults.refuse, "UPDATE ON outbox", "never", "NEW.state = 'sent'"
        )
        async with at_work(parts):
            await parts.sender.post(outgoing_reply("x"))
            await wait_until(lambda: "until the next start" in caplog.text)
            await parts.sender.post(outgoing_reply("y"))
            async with asyncio.timeout(30):
                await parts.sender.flush()
            assert parts.platform.texts("1") == ["x"]
            assert parts.sender.routes == 1
    async with opened(tmp_path, Gated()) as parts, at_work(parts):
        assert await parts.platform.answers("1", 2) == ["x", "y"]
        assert [shown.repeat for shown in parts.platform.chats["1"]] == [True, False]


async def test_unreadable_part_is_abandoned_and_other_parts_are_sent(
    tmp_path: Path, clock: Jumping
) -> None:
    timing = Timing(sender_clock=clock.time, sender_wait=clock.wait)
    cipher = Cipher(bytes(32), "KEY")
    async with opened(tmp_path, Gated(), timing=timing, cipher=cipher) as parts:
        for text in ("x", "y", "z"):
            await parts.sender.post(outgoing_reply(text))
        await parts.change("outbox", {"body": "changed"}, seq=2)
        async with at_work(parts):
            assert await parts.platform.answers("1", 2) == ["x", "z"]
            await parts.until_stored("outbox", state="dead")
        assert not any(shown.repeat for shown in parts.platform.chats["1"])
