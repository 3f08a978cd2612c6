"""Updates that cannot be decoded: stored, counted, logged without their text, decoded later."""

from dataclasses import replace
from pathlib import Path

import pytest

from agent.errors import KoreError
from gateway.core.channel_events import Batch, Undecoded
from gateway.core.messages import Sender
from gateway.store.repositories.delivery import undecoded_updates
from tests.fakes.gated import Gated
from tests.fakes.platform import Platform
from tests.gateway.parts import Parts, chat_message, opened

LOST = Undecoded("update:5", "KeyError: 'chat' (fields: message)", '{"text": "private"}', "chat:7")


class Later(Platform):
    """Channel that cannot decode an update at first, and can decode it later."""

    batch = Batch((), [LOST])

    def decode_again(self, raw: str) -> Batch:
        assert raw == LOST.raw
        return self.batch


async def store_undecoded(parts: Parts) -> int:
    for _ in range(2):
        await parts.bus.accept("chat", "bot", Batch((), [LOST], cursors={"offset": "6"}))
    ((seq,),) = await parts.stored("inbox", "seq")
    return int(seq)


async def test_undecoded_update_is_stored_counted_and_logged_without_its_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path, Gated()) as parts:
        seq = await store_undecoded(parts)
        undecoded_update = await parts.database.transact(undecoded_updates.at, seq)
        assert undecoded_update is not None
        assert undecoded_update.raw == LOST.raw
        assert (await parts.service.status())["updates_undecoded"] == 1
        assert caplog.text.count(f"`kore replay {seq}`") == 1
        assert "'chat'" in caplog.text
        assert "private" not in caplog.text


async def test_replay_decodes_the_update_and_stores_its_message_once(tmp_path: Path) -> None:
    platform = Later()
    async with opened(tmp_path, Gated(), platform=platform) as parts:
        seq = await store_undecoded(parts)
        with pytest.raises(KoreError, match="still cannot be decoded: KeyError"):
            await parts.service.replay(seq)
        platform.batch = Batch([chat_message("hi")])
        assert "queued on chat:bot:1" in await parts.service.replay(seq)
        assert (await parts.service.status())["updates_undecoded"] is None
        assert await parts.count("inbox", lane="chat:bot:1") == 1
        with pytest.raises(KoreError, match=f"no message {seq}"):
            await parts.service.replay(seq)


async def test_repeated_replay_stores_nothing_twice(tmp_path: Path) -> None:
    platform = Later()
    platform.batch = Batch([chat_message("hi")])
    async with opened(tmp_path, Gated(), platform=platform) as parts:
        seq = await store_undecoded(parts)
        await parts.bus.accept("chat", "bot", platform.batch)
        await parts.service.replay(seq)
        assert await parts.count("inbox", lane="chat:bot:1") == 1


async def test_replay_for_a_stopped_channel_is_an_error(tmp_path: Path) -> None:
    async with opened(tmp_path, Gated()) as parts:
        seq = await store_undecoded(parts)
        with pytest.raises(KoreError, match="which is not running here") as refused:
            await parts.service.replay(seq)
        assert "kore gateway" in str(refused.value.hint)


async def test_only_the_newest_updates_are_retained(tmp_path: Path) -> None:
    count = undecoded_updates.MAX_UPDATES + 2
    updates = [replace(LOST, event_id=f"update:{number}") for number in range(count)]
    async with opened(tmp_path, Gated()) as parts:
        await parts.bus.accept("chat", "bot", Batch((), updates[:-1]))
        await parts.bus.accept("chat", "bot", Batch((), updates[-1:]))
        rows = await parts.stored("inbox", "event_id", order="seq")
        assert rows == [(update.event_id,) for update in updates[2:]]


async def test_message_of_unknown_kind_is_answered_once_without_a_turn(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, Gated()) as parts:
        message = chat_message("", unknown=True)
        for _ in range(2):
            await parts.bus.accept("chat", "bot", Batch([message]))
        ((text,),) = await parts.stored("outbox", "body")
        assert "can't read this kind of message" in text
        assert (await parts.service.status())["messages_waiting"] == 0


async def test_unknown_message_of_a_stranger_is_rejected(tmp_path: Path) -> None:
    async with opened(tmp_path, Gated(), allow=()) as parts:
        await parts.bus.accept(
            "chat", "bot", Batch([chat_message("", sender=Sender("8"), unknown=True)])
        )
        rows = await parts.stored("outbox", "body")
        assert all("kind of message" not in body for (body,) in rows)
