"""Folders of sessions on both engines, with and without a key."""

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.types import user
from gateway.core.messages import InboundMessage, MessageOptions
from gateway.core.session_folder import SessionFolder
from gateway.store.cipher import Cipher
from gateway.store.port import Transaction
from gateway.store.repositories.conversations import session_admin, session_folders, sessions
from gateway.store.repositories.conversations.session_admin import SessionOwner
from gateway.store.repositories.delivery import inbox
from gateway.store.repositories.delivery.inbox import InboxBatch, InboxEntry
from gateway.store.repositories.execution import claims, turns
from gateway.store.repositories.execution.claims import TurnClaim
from tests.gateway import stored
from tests.gateway.parts import chat_message, console_message
from tests.gateway.store.transactions import (
    OpenServerTransaction,
    OpenTransaction,
    open_transaction,
)

CIPHER = Cipher(secrets.token_bytes(32), "KORE_STORE_KEY")
WORK = SessionFolder("/work", "/work/part")
OTHER = SessionFolder("/other")


@pytest.fixture(params=[CIPHER, None], ids=["sealed", "plain"])
def tx(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[OpenTransaction | OpenServerTransaction]:
    with open_transaction(tmp_path / "kore.db", cipher=request.param) as tx:
        yield tx


def create(tx: Transaction, folder: SessionFolder | None, now: float) -> str:
    session = sessions.create_session(tx, "cli:0", now)
    session_folders.put(tx, session, folder)
    return session


def run_turn(tx: Transaction, message: InboundMessage, now: float) -> str:
    """Begin and end the turn that answers a message, and return its session."""
    inbox.accept(tx, InboxBatch(message.channel, message.account, now), [InboxEntry(message)])
    claim = claims.claim(
        tx, message.session_key, now, lambda _: False, lambda m, _: user(m[-1].content)
    )
    assert isinstance(claim, TurnClaim)
    turns.finish(tx, claim.turn, claim.session, turns.FinishedTurn([], []), now)
    return claim.session


def typed(folder: SessionFolder | None, event_id: str) -> InboundMessage:
    options = MessageOptions() if folder is None else MessageOptions().in_folder(folder)
    return replace(console_message("hi"), event_id=event_id, options=options)


def test_folder_of_a_message_is_stored_until_a_message_names_another(tx: Transaction) -> None:
    session = run_turn(tx, typed(WORK, "1"), 1.0)
    assert session_folders.of_session(tx, session) == WORK
    run_turn(tx, typed(None, "2"), 2.0)
    assert session_folders.of_session(tx, session) == WORK
    run_turn(tx, typed(OTHER, "3"), 3.0)
    assert session_folders.of_session(tx, session) == OTHER


def test_folder_in_a_chat_message_is_ignored(tx: Transaction) -> None:
    options = MessageOptions().in_folder(WORK)
    session = run_turn(tx, replace(chat_message("hi"), options=options), 1.0)
    assert session_folders.of_session(tx, session) is None


def test_sessions_are_listed_with_their_folders(tx: Transaction) -> None:
    folders = (WORK, OTHER, None)
    ids = [create(tx, folder, now) for now, folder in enumerate(folders)]
    listed = {info.id: info.folder for info in sessions.recent(tx, 10)}
    assert listed == dict(zip(ids, folders, strict=True))


def test_sessions_of_a_workspace_are_found_behind_newer_ones(tx: Transaction) -> None:
    session = create(tx, WORK, 1.0)
    for now in range(2, 9):
        create(tx, OTHER, float(now))
    assert [info.id for info in sessions.recent(tx, 1, workspace="/work")] == [session]
    assert sessions.last_of(tx, "cli:0", "/work") == session
    assert sessions.last_of(tx, "cli:0", "/work/part") is None


def test_closed_session_is_not_the_last_of_its_workspace(tx: Transaction) -> None:
    first, second = create(tx, WORK, 1.0), create(tx, WORK, 2.0)
    assert sessions.last_of(tx, "cli:0", "/work") == second
    session_admin.set_status(tx, second, "closed")
    assert sessions.last_of(tx, "cli:0", "/work") == first


def test_copy_works_in_the_same_folder(tx: Transaction) -> None:
    session = create(tx, WORK, 1.0)
    fork = session_admin.fork(tx, session, SessionOwner("cli:0"), 2.0)
    assert session_folders.of_session(tx, fork) == WORK


def test_folder_whose_name_is_not_unicode_is_stored(tx: Transaction) -> None:
    folder = SessionFolder("/work/\udcff")
    session = create(tx, folder, 1.0)
    assert session_folders.of_session(tx, session) == folder
    assert sessions.last_of(tx, "cli:0", folder.workspace) == session


def test_changed_folder_is_ignored(tmp_path: Path) -> None:
    with open_transaction(tmp_path / "kore.db", cipher=CIPHER) as tx:
        session = create(tx, WORK, 1.0)
        other = create(tx, OTHER, 2.0)
        (sealed,) = tx.one("SELECT folder FROM session WHERE id = ?", (other,))
        stored.change(tx, "session", {"folder": sealed}, id=session)
        assert session_folders.of_session(tx, session) is None
        assert sessions.recent(tx, 1, session=session)[0].folder is None


def test_path_is_not_readable_without_the_key(tmp_path: Path) -> None:
    with open_transaction(tmp_path / "kore.db", cipher=CIPHER) as tx:
        create(tx, WORK, 1.0)
        ((folder, key),) = stored.read(tx, "session", "folder", "folder_key")
        assert "work" not in folder
        assert "work" not in key


def test_folders_of_earlier_sessions_are_read_from_their_messages_once(tx: Transaction) -> None:
    session = run_turn(tx, typed(WORK, "1"), 1.0)
    run_turn(tx, chat_message("in a chat"), 2.0)
    for (id_,) in stored.read(tx, "session", "id"):
        session_folders.put(tx, id_, None)
    session_folders.read_from_messages(tx)
    assert session_folders.of_session(tx, session) is None
    tx.run("INSERT INTO meta (name, value) VALUES ('folders_from_messages', '')")
    session_folders.read_from_messages(tx)
    assert session_folders.of_session(tx, session) == WORK
    assert sessions.last_of(tx, "cli:7", "/work") == session
    session_folders.put(tx, session, None)
    session_folders.read_from_messages(tx)
    assert session_folders.of_session(tx, session) is None
