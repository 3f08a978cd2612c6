"""SQLite store that runs each function once."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.store.sqlite.engine import SqliteStore


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    database = SqliteStore.open(tmp_path / "kore.db")
    yield database
    await database.close()
