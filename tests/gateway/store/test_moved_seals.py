"""Validity of bound rows after a database gets another key or moves to the other engine."""

import secrets
from pathlib import Path

import pytest

from agent.security.taint.taint import PRIVATE
from gateway.core.messages import OutboundPart
from gateway.store.cipher import Cipher
from gateway.store.copying import WholeDatabase, copy_store
from gateway.store.errors import SealBroken
from gateway.store.opening import whole_database, whole_postgres
from gateway.store.port import Transaction
from gateway.store.repositories import active_channels
from gateway.store.repositories.access import approvals, grants, members
from gateway.store.repositories.access.members import ANYBODY, Person
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply, PendingPart
from gateway.store.sealing import mark_sealed
from gateway.store.sqlite.rekey import rekey
from tests import postgres_server
from tests.gateway import stored
from tests.gateway.store.repositories.stored_approvals import ASKED, OWNER, ask, begin

OLD, NEW = (Cipher(secrets.token_bytes(32), name) for name in ("OLD", "NEW"))


def fill(tx: Transaction, cipher: Cipher | None) -> None:
    mark_sealed(tx, cipher)
    active_channels.limit(tx, active_channels.ALL)
    _, question = ask(tx, begin(tx))
    approvals.close_approval(tx, question, "always", "telegram:1", 2.0)
    members.add_member(tx, OWNER, owner=True, approved_by="cli:0", now=1.0)
    members.open_request(tx, Person("telegram", "main", ANYBODY), "", b"code", (1.0, 9.0))
    session = sessions.create_session(tx, "telegram:1", 3.0)
    sessions.add_taint(tx, session, PRIVATE)
    outbox.put(tx, None, [OutgoingReply("t1", ASKED.route, [OutboundPart("answer")])], 1.0)


def check(tx: Transaction) -> None:
    (question,) = stored.read(tx, "approval", "nonce")
    prompt = approvals.find(tx, question[0])
    assert prompt is not None
    assert prompt.request.tool == "exec"
    assert [grant.granted_by for grant in grants.list_grants(tx)] == ["telegram:1"]
    assert [member.owner for member in members.members(tx)] == [True]
    assert members.invitation(tx, "telegram", "main", 2.0) == b"code"
    session = sessions.last_of(tx, "telegram:1")
    assert session is not None
    assert sessions.taint_of(tx, session) == PRIVATE
    assert isinstance(outbox.head(tx, ASKED.session_key, 9.0), PendingPart)


def database(engine: str, folder: Path, name: str) -> WholeDatabase:
    if engine == "postgres":
        return whole_postgres(postgres_server.database_of(folder / name))
    return whole_database(f"sqlite:///{folder / name}")


def change_key(engine: str, folder: Path, old: Cipher | None, new: Cipher | None) -> None:
    if engine == "postgres":
        whole_postgres(postgres_server.database_of(folder / "a.db")).rekey(old, new)
    else:
        rekey(folder / "a.db", old, new)


@pytest.mark.parametrize(("old", "new"), [(None, NEW), (OLD, NEW), (OLD, None)])
def test_rekeying_keeps_bound_rows_valid(
    engine: str, tmp_path: Path, old: Cipher | None, new: Cipher | None
) -> None:
    whole = database(engine, tmp_path, "a.db")
    with whole.opened(old) as tx:
        fill(tx, old)
    change_key(engine, tmp_path, old, new)
    with whole.opened(new) as tx:
        check(tx)


def test_rekeying_makes_no_forged_row_valid(engine: str, tmp_path: Path) -> None:
    whole = database(engine, tmp_path, "a.db")
    with whole.opened(OLD) as tx:
        fill(tx, OLD)
        stored.change(tx, "member", {"sender": "2"}, sender="1")
    with pytest.raises(SealBroken):
        change_key(engine, tmp_path, OLD, NEW)
    with whole.opened(OLD) as tx:
        assert members.members(tx) == []


def test_copy_to_the_other_engine_keeps_bound_rows_valid(engine: str, tmp_path: Path) -> None:
    other = "sqlite" if engine == "postgres" else "postgres"
    source, target = database(engine, tmp_path, "a.db"), database(other, tmp_path, "b.db")
    with source.opened(OLD) as tx:
        fill(tx, OLD)
    copy_store(source, target, OLD)
    with target.opened(OLD) as tx:
        check(tx)
