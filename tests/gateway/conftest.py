from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from gateway.store.port import Transaction
from tests.gateway.databases import OpenStore, open_database
from tests.gateway.store.transactions import open_transaction


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[OpenStore]:
    database = open_database(tmp_path / "kore.db")
    yield database
    await database.close()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Transaction]:
    """Yield an open transaction of an empty database."""
    with open_transaction(tmp_path / "kore.db") as tx:
        yield tx
