from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.store.sqlite.engine import SqliteStore
from tests.fakes.rehearsing_store import RehearsingStore


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    database = RehearsingStore.open(tmp_path / "kore.db")
    yield database
    await database.close()
