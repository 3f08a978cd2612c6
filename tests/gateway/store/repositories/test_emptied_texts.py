"""Rejection of rows whose sealed texts were emptied in the database, if a key is set."""

import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from agent.types import user
from gateway.core.messages import OutboundPart
from gateway.store.cipher import SEALED_COLUMNS, Cipher
from gateway.store.errors import SealBroken
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import (
    session_admin,
    sessions,
)
from gateway.store.repositories.delivery import chats, outbox
from gateway.store.repositories.delivery.outbox import OutgoingReply, PendingPart
from gateway.store.repositories.execution import turns
from gateway.store.sealing import BrokenSeal
from tests.gateway import stored
from tests.gateway.store.repositories.text_readers import READ, READERS, ROUTE, Scene
from tests.gateway.store.transactions import (
    OpenServerTransaction,
    OpenTransaction,
    open_transaction,
)


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[OpenTransaction | OpenServerTransaction]:
    cipher = Cipher(secrets.token_bytes(32), "KORE_STORE_KEY")
    with open_transaction(tmp_path / "kore.db", cipher=cipher) as tx:
        yield tx


def test_every_sealed_column_has_a_reader() -> None:
    assert set(READERS) == set(SEALED_COLUMNS)


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_no_column_opens_without_a_seal(
    tx: OpenTransaction | OpenServerTransaction, text: str
) -> None:
    for column, sealed in SEALED_COLUMNS.items():
        place = [1] * len((*sealed.key, *sealed.bound))
        tx.broken.clear()
        with pytest.raises(SealBroken):
            tx.unseal(text, column, *place)
        broken = [BrokenSeal(sealed.table, ", ".join("1" for _ in sealed.key))]
        assert tx.broken == broken, column


@pytest.mark.parametrize("column", SEALED_COLUMNS)
def test_row_with_an_emptied_text_is_rejected_and_named(
    tx: OpenTransaction | OpenServerTransaction, column: str
) -> None:
    scene = Scene(tx)
    if column == "session.taint":
        sessions.choose_mode(tx, scene.session, "plan")
    honest = READERS[column](scene) if column != "group_context.text" else READ
    assert honest
    assert tx.broken == []
    table, _, name = column.partition(".")
    key = SEALED_COLUMNS[column].key
    rows = stored.read(tx, table, *key)
    stored.change(tx, table, {name: ""})
    with suppress(SealBroken):
        assert not READERS[column](scene)
    assert tx.broken
    assert set(tx.broken) <= {BrokenSeal(table, ", ".join(map(str, row))) for row in rows}


def test_only_columns_that_may_have_no_text_are_optional(
    tx: OpenTransaction | OpenServerTransaction,
) -> None:
    for column, sealed in SEALED_COLUMNS.items():
        name = column.partition(".")[2]
        assert (name in sealed.optional) == _is_nullable(tx, sealed.table, name), column
        place = [1] * len((*sealed.key, *sealed.bound))
        if name in sealed.optional:
            assert tx.unseal(None, column, *place) is None
        else:
            with pytest.raises(SealBroken):
                tx.unseal(None, column, *place)


def _is_nullable(tx: OpenTransaction | OpenServerTransaction, table: str, column: str) -> bool:
    if isinstance(tx, OpenTransaction):
        facts = {row[1]: row[3] for row in tx.all(f"PRAGMA table_info({table})")}
        return not facts[column]
    (nullable,) = tx.one(
        "SELECT is_nullable FROM information_schema.columns WHERE table_schema = current_schema()"
        " AND table_name = ? AND column_name = ?",
        (table, column),
    )
    return bool(nullable == "YES")


def test_session_with_an_emptied_name_is_listed(tx: Transaction) -> None:
    session = sessions.create_session(tx, "telegram:1", 1.0)
    sessions.append_messages(tx, session, None, [user("the first words")], 1.0)
    session_admin.rename(tx, session, "my own name")
    stored.change(tx, "session", {"name": ""}, id=session)
    (info,) = sessions.recent(tx, 9)
    assert info.name == "the first words"
    assert sessions.create_session(tx, "telegram:1", 2.0)


LETTER = OutgoingReply("pair:1", ROUTE, [OutboundPart("the code is ABCD")])
ENDS: dict[str, Callable[[Transaction, int], object]] = {
    "sent": lambda tx, seq: outbox.sent(tx, seq, "77", ROUTE.lane, 9.0),
    "set_sent": lambda tx, seq: outbox.set_sent(tx, seq, "77"),
    "give_up": lambda tx, seq: outbox.give_up(tx, seq, "blocked"),
    "give_up_lane": lambda tx, seq: outbox.give_up(tx, seq, "blocked", whole_lane=True),
    "drop_unsent": lambda tx, _: outbox.drop_unsent(tx, "pair:1", "decided"),
    "unreadable": lambda tx, _: outbox.give_up_unreadable(tx, ROUTE.lane, "broken"),
    "unreachable": lambda tx, _: chats.mark_unreachable(tx, ROUTE, "blocked", 9.0),
    "abandoned": lambda tx, _: turns.abandon_lane(tx, ROUTE.lane, 9.0),
}


@pytest.mark.parametrize("end", ENDS)
def test_completed_pairing_reply_loses_its_code_under_a_seal(
    tx: OpenTransaction | OpenServerTransaction, end: str
) -> None:
    outbox.put(tx, None, [replace(LETTER), OutgoingReply("t1", ROUTE, LETTER.parts)], 1.0)
    ((seq,),) = stored.read(tx, "outbox", "seq", delivery_id="pair:1")
    ENDS[end](tx, seq)
    stored.change(tx, "outbox", {"state": "pending"}, delivery_id="pair:1")
    first = outbox.head(tx, ROUTE.lane, 9.0)
    assert isinstance(first, PendingPart)
    assert first.message.content == OutboundPart("")
    assert tx.broken == []
    stored.change(tx, "outbox", {"state": "sent"}, delivery_id="pair:1")
    stored.change(tx, "outbox", {"state": "pending"}, delivery_id="t1")
    second = outbox.head(tx, ROUTE.lane, 9.0)
    assert isinstance(second, PendingPart)
    assert second.message.content == LETTER.parts[0]


def test_forged_pairing_reply_gets_no_seal_when_it_ends(tx: Transaction) -> None:
    outbox.put(tx, None, [LETTER], 1.0)
    stored.change(tx, "outbox", {"body": "forged"}, delivery_id="pair:1")
    outbox.give_up_unreadable(tx, ROUTE.lane, "broken")
    assert stored.read(tx, "outbox", "state", "body") == [("dead", "forged")]


def test_statements_that_complete_parts_remove_their_codes() -> None:
    folder = Path(outbox.__file__).parents[1]
    for path in folder.rglob("*.py"):
        text = path.read_text("utf-8")
        endings = len(re.findall(r"UPDATE outbox SET state = '(?:sent|dead)'", text))
        assert text.count("RETURNING seq, delivery_id") == endings, path.name
        assert text.count("forget_codes(tx, ") == endings, path.name
