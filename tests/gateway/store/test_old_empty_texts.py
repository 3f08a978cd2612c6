"""A database of a Kore that left texts empty without a seal opens, and no forged row with it."""

import secrets
from pathlib import Path

import pytest

from agent.types import user
from gateway.core.messages import OutboundPart
from gateway.store.cipher import Cipher
from gateway.store.errors import StoreError
from gateway.store.port import Transaction
from gateway.store.repositories.access import grants, members
from gateway.store.repositories.conversations import session_admin, sessions
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply
from gateway.store.sealing import mark_sealed
from tests.gateway import stored
from tests.gateway.parts import chat_message
from tests.gateway.store.repositories.test_tampering import EVE, OWNER
from tests.gateway.store.test_moved_seals import change_key, database

CIPHER, NEW = (Cipher(secrets.token_bytes(32), name) for name in ("KORE_STORE_KEY", "NEW"))
ROUTE = chat_message("x").route


def fill(tx: Transaction) -> None:
    """Rows as the earlier version left them, and some that somebody put there without the key."""
    mark_sealed(tx, CIPHER)
    mark = CIPHER.seal("this is the key", "meta.value", "cipher")
    stored.change(tx, "meta", {"value": mark}, name="cipher")
    for now, principal in ((1.0, "telegram:1"), (2.0, "telegram:2")):
        session = sessions.create_session(tx, principal, now)
        sessions.append_messages(tx, session, None, [user(f"words of {principal}")], now)
    stored.change(tx, "session", {"name": ""}, principal="telegram:1")
    session_admin.rename(tx, session, "a name")
    emptied = {"body": "", "entities": "[]", "buttons": "[]", "state": "sent"}
    for name in ("pair:1", "t1"):
        outbox.put(tx, None, [OutgoingReply(name, ROUTE, [OutboundPart("ABCD")])], 1.0)
        stored.change(tx, "outbox", emptied, delivery_id=name)
    members.add_member(tx, OWNER, owner=True, approved_by="cli:0", now=1.0)
    values = {"account": "main", "is_owner": 1, "approved_by": "cli:0", "approved_at": 1.0}
    stored.add(tx, "member", channel="telegram", sender=EVE.sender, name="", **values)
    values = {"granted_by": "telegram:1", "granted_at": 1.0, "title": "", "folder": ""}
    stored.add(tx, "permission_grant", principal="telegram:2", session="", grant_hash="h", **values)


def check(tx: Transaction) -> None:
    assert {info.name for info in sessions.recent(tx, 9)} == {"words of telegram:1", "a name"}
    assert [one.person.sender for one in members.members(tx)] == [OWNER.sender]
    assert grants.list_grants(tx) == []
    first, *_ = stored.read(tx, "outbox", "seq", order="seq")
    (letter, *_) = outbox.handed_out_after(tx, ROUTE.lane, first[0] - 1, 1)
    assert letter.content == OutboundPart("")
    with pytest.raises(StoreError):
        outbox.handed_out_after(tx, ROUTE.lane, first[0], 1)


def test_the_texts_get_their_seal_once(engine: str, tmp_path: Path) -> None:
    whole = database(engine, tmp_path, "a.db")
    with whole.opened(CIPHER) as tx:
        fill(tx)
    with whole.opened(CIPHER) as tx:
        check(tx)
        stored.change(tx, "session", {"name": ""}, principal="telegram:2")
    with whole.opened(CIPHER) as tx:
        assert stored.count(tx, "session", name="") == 1


def test_such_a_database_gets_another_key(engine: str, tmp_path: Path) -> None:
    whole = database(engine, tmp_path, "a.db")
    with whole.opened(CIPHER) as tx:
        fill(tx)
        for table in ("member", "permission_grant"):
            stored.delete(tx, table)
        tx.run("DELETE FROM outbox WHERE delivery_id = 't1'")
    change_key(engine, tmp_path, CIPHER, NEW)
    with whole.opened(NEW) as tx:
        assert {info.name for info in sessions.recent(tx, 9)} == {"words of telegram:1", "a name"}
