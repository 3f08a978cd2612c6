from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.control.server import ControlServer
from tests.fakes.memory_service import MemoryService


@pytest.fixture
async def home(tmp_path: Path) -> Path:
    folder = tmp_path / "kore"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
async def owner(home: Path) -> AsyncIterator[MemoryService]:
    """Run a service that owns the data of this home."""
    async with MemoryService() as service, ControlServer(service, home / "kore.sock"):
        yield service
