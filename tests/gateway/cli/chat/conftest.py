from pathlib import Path

import pytest

from tests.fakes.model import ModelServer
from tests.gateway.cli.chat.long_task_scene import Place


@pytest.fixture
def place(tmp_path: Path, model_server: ModelServer) -> Place:
    return Place(tmp_path, model_server)
