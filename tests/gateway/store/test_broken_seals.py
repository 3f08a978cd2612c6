"""Single audit entries for changed rows, also if the function that reads them fails."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.core.messages import OutboundPart
from gateway.store.cipher import Cipher
from gateway.store.errors import SealBroken
from gateway.store.repositories import audit_outbox
from gateway.store.repositories.access import members
from gateway.store.repositories.access.members import Person
from gateway.store.repositories.audit_outbox import AuditNote
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply
from tests.gateway import stored
from tests.gateway.databases import OpenStore, open_database
from tests.gateway.parts import chat_message

CIPHER = Cipher(secrets.token_bytes(32), "KORE_STORE_KEY")
MESSAGE = chat_message("hi")


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[OpenStore]:
    store = open_database(folder / "kore.db", CIPHER)
    try:
        yield store
    finally:
        await store.close()


@pytest.mark.usefixtures("engine")
async def test_skipped_row_is_audited_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        person = Person("telegram", "main", "2", "Eve")
        await store.transact(members.add_member, person, owner=False, approved_by="cli:0", now=1.0)
        await store.transact(stored.change, "member", {"is_owner": 1}, sender="2")
        for _ in range(3):
            assert await store.transact(members.members) == []
        ((_, note),) = await store.transact(audit_outbox.waiting, 9)
        assert isinstance(note, AuditNote)
        assert note.what == "seal"
        assert not note.allowed
        assert note.params == {"table": "member", "key": "telegram, main, 2"}


@pytest.mark.usefixtures("engine")
async def test_rejected_work_leaves_an_audit_entry(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        reply = OutgoingReply("t1", MESSAGE.route, [OutboundPart("the answer")])
        await store.transact(outbox.put, None, [reply], 1.0)
        await store.transact(stored.change, "outbox", {"chat": "2"}, delivery_id="t1")
        for _ in range(2):
            with pytest.raises(SealBroken):
                await store.transact(outbox.head, MESSAGE.session_key, 2.0)
        ((_, note),) = await store.transact(audit_outbox.waiting, 9)
        assert isinstance(note, AuditNote)
        assert note.params == {"table": "outbox", "key": "t1, 0"}
