"""Hints that the bus of a front sends to workers."""

from collections.abc import Callable
from pathlib import Path

from gateway.core.channel_events import Batch
from gateway.fanout.base import Receive, Topic
from gateway.workers.hints import Hint, LaneHint, decode
from gateway.workers.links import FrontLink
from tests.gateway.parts import chat_message, running, wait_until

WORKER = 3


class KeptHints:
    """Fanout that only records its hints."""

    dropped_count = 0

    def __init__(self) -> None:
        self.hints: list[Hint | None] = []

    def publish(self, topic: Topic, message: bytes) -> None:
        self.hints.append(decode(message))

    def subscribe(self, topic: Topic, receive: Receive, reconnected: Callable[[], None]) -> None:
        """Deliver nothing."""

    async def run(self) -> None:
        """Return at once and deliver nothing."""


async def test_front_forwards_plain_messages_to_workers(tmp_path: Path) -> None:
    fanout = KeptHints()
    link = FrontLink(fanout)
    link.room = {WORKER: 5}
    async with running(tmp_path, [], link=link) as parts:
        plain, command = chat_message("hi", "1"), chat_message("/status", "2")
        await parts.bus.accept("chat", "bot", Batch([plain, command]))

        assert fanout.hints == [LaneHint(plain.session_key, WORKER)]
        assert not parts.bus.is_at_work(plain.session_key)
        await wait_until(lambda: parts.platform.chats.get("2"))
        assert not parts.platform.chats.get("1"), "its turn is a worker's"


async def test_message_after_a_command_is_passed_to_a_worker(tmp_path: Path) -> None:
    fanout = KeptHints()
    link = FrontLink(fanout)
    link.room = {WORKER: 5}
    async with running(tmp_path, [], link=link) as parts:
        messages = [chat_message("/status"), chat_message("hi")]
        await parts.bus.accept("chat", "bot", Batch(messages))

        hint = LaneHint(messages[0].session_key, WORKER)
        assert hint not in fanout.hints
        await wait_until(lambda: hint in fanout.hints)
        await wait_until(lambda: len(parts.platform.chats["1"]) == 1)
