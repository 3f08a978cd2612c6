from pathlib import Path

import pytest

from agent.run.history import History, JsonlHistory, MemoryHistory


@pytest.fixture(params=["memory", "jsonl"])
def history(request: pytest.FixtureRequest, tmp_path: Path) -> History:
    """Return an instance of each history implementation in Kore."""
    return MemoryHistory() if request.param == "memory" else JsonlHistory(tmp_path / "chats")
