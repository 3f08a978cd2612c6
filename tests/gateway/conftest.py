from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.databases import OpenStore, open_database


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[OpenStore]:
    database = open_database(tmp_path / "kore.db")
    yield database
    await database.close()
