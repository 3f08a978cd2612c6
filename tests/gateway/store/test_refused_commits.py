"""In-memory changes of a transaction, which take effect only when it is committed."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from gateway.access.control import AccessControl
from gateway.access.pairing import PairingCodes
from gateway.core.messages import Sender
from gateway.delivery.user_language import UserLanguages
from gateway.store.port import Transaction
from gateway.store.repositories import preferences
from gateway.store.repositories.access import members
from gateway.store.sqlite.engine import SqliteStore
from tests.fakes.rehearsing_store import RehearsingStore
from tests.gateway.parts import chat_message

NOW = 1_000_000.0


class RefusedError(Exception):
    pass


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = RehearsingStore.open(tmp_path / "kore.db")
    yield store
    await store.close()


async def test_unstored_approval_admits_no_one(store: SqliteStore) -> None:
    access = AccessControl(None, {("chat", "bot"): ()})
    pairing = PairingCodes(access)
    message = chat_message("hi", "8", sender=Sender("8", "Eve"))
    code = await store.transact(pairing.ask, message, NOW)
    assert code is not None

    def refused(tx: Transaction) -> None:
        assert pairing.approve(tx, code, "cli:0", NOW).owner
        raise RefusedError

    with pytest.raises(RefusedError):
        await store.transact(refused)
    assert access.members.owner is None
    assert not access.members.people
    assert await store.transact(members.members) == []
    await store.transact(pairing.approve, code, "cli:0", NOW)
    assert access.members.owner == message.principal


async def test_unstored_language_is_stored_the_next_time(store: SqliteStore) -> None:
    languages, message = UserLanguages(), chat_message("你好", language="zh-Hans")

    def refused(tx: Transaction) -> None:
        languages.record_client_language(tx, message)
        languages.choose(tx, message, "en")
        raise RefusedError

    with pytest.raises(RefusedError):
        await store.transact(refused)
    assert languages.choice_of(message.principal) is None
    await store.transact(languages.record_client_language, message)
    assert await store.transact(preferences.client_languages) == [
        (message.principal, "zh-Hans", None)
    ]
