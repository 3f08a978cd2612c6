from pathlib import Path

import pytest

from tests.agent.undo.scene import Scene


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "workspace", tmp_path / "undo")
