import asyncio
from pathlib import Path

import pytest

from agent.errors import KoreError
from gateway.access.approvals import ApprovalService
from gateway.access.chat_membership import ChatMembership
from gateway.access.control import AccessControl
from gateway.access.pairing import MAX_OPEN_CODES, PairingCodes
from gateway.access.pairing_service import PairingService
from gateway.bus.ingest import BackpressureLimits, Ingestor, IngestResult
from gateway.commands import read_command
from gateway.core.channel_events import Batch
from gateway.core.messages import Sender
from gateway.store.repositories.access.members import MAX_DENIED
from gateway.store.repositories.delivery import outbox
from tests.fakes.gated import Gated
from tests.gateway.parts import Parts, chat_message, opened

ACCESS = AccessControl(None, {("chat", "bot"): ("*",)})


def ingestor_of(
    parts: Parts, limits: BackpressureLimits | None = None, access: AccessControl = ACCESS
) -> Ingestor:
    app = parts.app
    shown = {"renderer": app.renderer, "languages": app.languages}
    return Ingestor(
        database=parts.database,
        access=access,
        pairing=PairingService(access=access, codes=PairingCodes(access), **shown),
        approvals=ApprovalService(access=access, **shown),
        membership=ChatMembership(access=access, **shown),
        audit_relay=app.audit_relay,
        goals=app.goals,
        read_command=read_command,
        limits=limits,
        **shown,
    )


async def take(ingestor: Ingestor, text: str, offset: int) -> IngestResult:
    return await ingestor.take(
        "chat", "bot", Batch([chat_message(text)], cursors={"offset": str(offset)})
    )


async def test_ingestion_waits_above_the_limit(tmp_path: Path) -> None:
    async with opened(tmp_path, Gated()) as parts:
        full = ingestor_of(parts, BackpressureLimits(waiting_messages=2, check_interval_s=0.001))
        await take(full, "a", 1)
        await take(full, "b", 2)
        third = asyncio.create_task(take(full, "c", 3))
        for _ in range(5):
            await parts.transaction_ends()
        assert not third.done()
        assert await parts.stored("cursor", "value") == [("2",)]
        await parts.change("inbox", {"dead_reason": "done"}, seq=1)
        async with asyncio.timeout(30):
            assert (await third).lanes == {"chat:bot:1"}
        assert await parts.stored("cursor", "value") == [("3",)]


async def test_flood_of_strangers_fills_neither_the_database_nor_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path, Gated()) as parts:
        closed = AccessControl("chat:7", {("chat", "bot"): ()})
        ingestor = ingestor_of(parts, access=closed)
        for n in range(30):
            flood = [
                chat_message("x" * 100, str(m), sender=Sender(str(m))) for m in range(100, 150)
            ]
            await ingestor.take("chat", "bot", Batch(flood, cursors={"offset": str(n)}))
        assert await parts.count("inbox") == MAX_DENIED
        assert await parts.count("pairing") == MAX_OPEN_CODES
        # Each person with a code gets a message, and the owner gets a message about each.
        assert await parts.count("outbox") == 2 * MAX_OPEN_CODES
        assert caplog.text.count("not on the allowlist") == 50


async def test_redelivered_request_gets_the_same_code(tmp_path: Path) -> None:
    async with opened(tmp_path, Gated()) as parts:
        ingestor = ingestor_of(parts, access=AccessControl("chat:7", {}))
        stranger = chat_message("hi", "9", sender=Sender("9"))
        assert (await ingestor.take("chat", "bot", Batch([stranger]))).mail_lanes == {
            "chat:bot:9",
            "chat:bot:7",
        }
        assert (await ingestor.take("chat", "bot", Batch([stranger]))).mail_lanes == set()
        # Once the messages are sent or abandoned, the code is stored nowhere.
        ((sent,),) = await parts.stored("outbox", "seq", lane="chat:bot:9")
        ((lost,),) = await parts.stored("outbox", "seq", lane="chat:bot:7")
        await parts.database.transact(outbox.set_sent, sent, "1")
        await parts.database.transact(outbox.give_up, lost, "refused")
        assert await parts.stored("outbox", "body", distinct=True) == [("",)]


async def test_full_disk_pauses_ingestion_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path, Gated()) as parts:
        full = ingestor_of(parts, BackpressureLimits(free_bytes=2**60, check_interval_s=0.001))
        waiting = asyncio.create_task(take(full, "a", 1))
        for _ in range(5):
            await parts.transaction_ends()
        assert not waiting.done()
        assert await parts.count("cursor") == 0
        assert await parts.count("inbox") == 0
        assert full.obstacle is not None
        assert caplog.text.count(full.obstacle) == 1
        waiting.cancel()
        await asyncio.wait({waiting})
        assert full.obstacle is None


async def test_sender_is_notified_if_the_disk_is_full(tmp_path: Path) -> None:
    async with opened(tmp_path, Gated()) as parts:
        full = ingestor_of(parts, BackpressureLimits(free_bytes=2**60))
        with pytest.raises(KoreError, match="MB of disk space is free") as refused:
            await full.take("chat", "bot", Batch([chat_message("a")], can_wait=False))
        assert "not stored" in (refused.value.hint or "")
        assert await parts.count("inbox") == 0
        assert full.obstacle is None
