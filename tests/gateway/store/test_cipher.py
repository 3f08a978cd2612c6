"""Sealed stores: no readable text on disk, no access with a wrong key or in another row."""

import base64
import secrets
from pathlib import Path

import pytest

from agent.errors import ConfigError
from agent.types import ToolCall, ToolResult, assistant, user
from gateway.core.channel_events import Undecoded
from gateway.core.messages import OutboundPart
from gateway.store.cipher import SEALED, Cipher, cipher_of
from gateway.store.errors import StoreError
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import sessions
from gateway.store.repositories.delivery import inbox, outbox, undecoded_updates
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.delivery.outbox import OutgoingReply, PendingPart
from gateway.store.repositories.execution import claims, turns
from gateway.store.repositories.execution.claims import TurnClaim
from gateway.store.sqlite.engine import SqliteStore, connect
from gateway.store.sqlite.rekey import rekey
from tests.gateway.parts import chat_message
from tests.gateway.store.transactions import open_transaction

CANARY = "canary in a mine"
KEY, OTHER = secrets.token_bytes(32), secrets.token_bytes(32)


def _cipher(key: bytes = KEY) -> Cipher:
    return Cipher(key, "KORE_STORE_KEY")


def _fill(tx: Transaction) -> tuple[TurnClaim, str]:
    """Store a turn with a call, its result and an answer in the outbox, each with the canary."""
    message = chat_message(f"ask {CANARY}", event_id="1:1", message_id="1")
    arrival = InboxBatch(message.channel, message.account, 1.0, {"offset": "5"})
    inbox.accept(tx, arrival, [InboxEntry(message)])
    undecoded_updates.keep(tx, arrival, [Undecoded("9", "cannot be read", "a raw secret")])
    claim = claims.claim(
        tx, message.session_key, 1.0, lambda _: False, lambda m, _: user(m[-1].content)
    )
    assert isinstance(claim, TurnClaim)
    call = ToolCall("c1", "exec", {"command": CANARY}, f'{{"command": "{CANARY}"}}')
    reply = assistant(f"I call {CANARY}", (call,))
    turns.add_reply(tx, claim.turn, claim.session, [reply], {"c1": "unsafe"}, 1.0)
    turns.start_call(tx, claim.turn, call)
    turns.finish_call(tx, claim.turn, call, ToolResult(f"found {CANARY}"))
    outgoing = OutgoingReply(f"t{claim.turn}", message.route, [OutboundPart(f"answer {CANARY}")])
    outbox.put(tx, claim.turn, [outgoing], 1.0)
    return claim, message.session_key


def _raw(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())


def test_everything_is_sealed_and_opens_again(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    with open_transaction(path, cipher=_cipher()) as tx:
        claim, lane = _fill(tx)
    assert CANARY.encode() not in _raw(tmp_path)
    with open_transaction(path, cipher=_cipher(), check=True) as tx:
        result, reply = sessions.load_all(tx, claim.session)
        assert (result.text, reply.text) == (f"ask {CANARY}", f"I call {CANARY}")
        assert reply.tool_calls[0].arguments == {"command": CANARY}
        known = turns.known_results(tx, claim.turn)
        assert known["c1"].for_model == f"found {CANARY}"
        due = outbox.head(tx, lane, 9.0)
        assert isinstance(due, PendingPart)
        assert due.message.content.text == f"answer {CANARY}"
        outbox.make_plain(tx, due.seq)
        assert isinstance(outbox.head(tx, lane, 9.0), PendingPart)
        (info,) = sessions.recent(tx, 5)
        assert info.name == f"ask {CANARY}"
        resumed = claims.claim(tx, lane, 2.0, lambda _: False, lambda m, _: user("-"))
        assert isinstance(resumed, TurnClaim)
        assert resumed.messages[0].content == f"ask {CANARY}"


def test_edit_of_a_waiting_message_is_sealed_for_its_row(tmp_path: Path) -> None:
    with open_transaction(tmp_path / "kore.db", cipher=_cipher()) as tx:
        first = chat_message("before", event_id="1:1", message_id="1")
        edit = chat_message(CANARY, event_id="1:1:7", message_id="1", edited=True)
        for item in (first, edit):
            inbox.accept(tx, InboxBatch(item.channel, item.account, 1.0), [InboxEntry(item)])
        claim = claims.claim(tx, first.session_key, 1.0, lambda _: False, lambda m, _: user("-"))
        assert isinstance(claim, TurnClaim)
        assert [message.content for message in claim.messages] == [CANARY]


def test_sealed_texts_do_not_open_elsewhere(tmp_path: Path) -> None:
    with open_transaction(tmp_path / "kore.db", cipher=_cipher()) as tx:
        claim, lane = _fill(tx)
        (result,), (two,) = tx.all("SELECT content FROM message ORDER BY n")
        for swapped in ((two, 1), (result[:-8] + "AAAAAAA=", 1), ("not base64 at all", 1)):
            tx.run("UPDATE message SET content = ? WHERE n = ?", swapped)
            with pytest.raises(StoreError):
                sessions.load_all(tx, claim.session)
        tx.run("UPDATE outbox SET body = entities")
        with pytest.raises(StoreError):
            outbox.head(tx, lane, 9.0)


def _sent_text(tx: Transaction) -> str:
    (message,) = outbox.handed_out_after(tx, chat_message("x").session_key, 0, 9)
    return message.content.text


def test_pairing_reply_loses_its_text_and_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    with open_transaction(path, cipher=_cipher()) as tx:
        reply = OutgoingReply(
            "pair:1", chat_message("x").route, [OutboundPart("your code is ABCD")]
        )
        outbox.put(tx, None, [reply], 1.0)
        due = outbox.head(tx, chat_message("x").session_key, 9.0)
        assert isinstance(due, PendingPart)
        outbox.sent(tx, due.seq, "77", "lane", 9.0)
        assert "ABCD" not in _sent_text(tx)
    assert rekey(path, _cipher(), _cipher(OTHER)) == 1
    with open_transaction(path, cipher=_cipher(OTHER)) as tx:
        assert _sent_text(tx) == ""


async def test_changed_row_is_reported_in_a_clear_sentence(tmp_path: Path) -> None:
    database = SqliteStore.open(tmp_path / "kore.db", cipher=_cipher())
    try:
        claim, _ = await database.transact(_fill)
        await database.transact(lambda c: c.run("UPDATE message SET content = 'x'"))
        with pytest.raises(StoreError, match="it was changed or moved to another row"):
            await database.transact(sessions.load_all, claim.session)
    finally:
        await database.close()


def test_same_text_is_never_sealed_identically() -> None:
    cipher = _cipher()
    sealed = {cipher.seal(CANARY, "message.content", "s", 1) for _ in range(50)}
    assert len(sealed) == 50
    assert {cipher.unseal(item, "message.content", "s", 1) for item in sealed} == {CANARY}
    with pytest.raises(ValueError, match="not sealed here"):
        cipher.unseal(sealed.pop(), "message.content", "s1", "")


@pytest.mark.parametrize(
    ("sealing_key", "opened", "sentence"),
    [
        (KEY, OTHER, "encrypted with a different key from the one in KORE_STORE_KEY"),
        (KEY, None, "is encrypted, but store.encryption_key_env is not set"),
        (None, KEY, "is not encrypted"),
    ],
    # Explicit ids, since the keys differ between the processes of a test run.
    ids=["another key", "no key", "a key too many"],
)
def test_wrong_key_does_not_change_a_single_byte(
    tmp_path: Path, sealing_key: bytes | None, opened: bytes | None, sentence: str
) -> None:
    path = tmp_path / "kore.db"
    with open_transaction(path, cipher=sealing_key and _cipher(sealing_key)) as tx:
        _fill(tx)
    before = _raw(tmp_path)
    for check in (False, True):
        with pytest.raises(StoreError, match=sentence) as caught:
            connect(path, check=check, cipher=opened and _cipher(opened))
        assert caught.value.hint
        assert _raw(tmp_path) == before


def test_database_without_messages_accepts_a_key(tmp_path: Path) -> None:
    path = tmp_path / "kore.db"
    connect(path).close()
    connect(path, cipher=_cipher()).close()
    with pytest.raises(StoreError):
        connect(path)


def test_keys_are_read_in_hexadecimal_and_base64() -> None:
    texts = [KEY.hex(), KEY.hex().upper(), base64.b64encode(KEY).decode(), f" {KEY.hex()}\n"]
    texts += [base64.urlsafe_b64encode(KEY).decode(), base64.b64encode(KEY).decode().rstrip("=")]
    sealed = _cipher().seal(CANARY, "x")
    for text in texts:
        cipher = cipher_of("K", {"K": text})
        assert cipher is not None
        assert cipher.unseal(sealed, "x") == CANARY
    assert cipher_of(None, {}) is None


@pytest.mark.parametrize(
    "text", ["", "short", "x" * 64, base64.b64encode(b"x" * 31).decode(), "ab" * 31, "ö" * 44]
)
def test_invalid_key_is_reported_in_one_sentence_without_its_value(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cipher_of("K", {"K": text})
    output = f"{caught.value} {caught.value.hint}"
    assert "store.encryption_key_env" in output
    assert "K" in output
    assert not text or text not in output


def test_every_sealed_column_exists(tmp_path: Path) -> None:
    with open_transaction(tmp_path / "kore.db") as tx:
        for item in SEALED:
            names = {row[1] for row in tx.all(f"PRAGMA table_info({item.table})")}
            assert {*item.key, *item.bound, *item.columns} <= names


def test_only_listed_columns_are_sealed(tmp_path: Path) -> None:
    with (
        open_transaction(tmp_path / "kore.db") as tx,
        pytest.raises(LookupError, match="not a column of"),
    ):
        tx.seal("user", "message.role", "s", 1)
