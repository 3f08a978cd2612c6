"""Scene of reviews in real processes."""

from pathlib import Path

import pytest

from tests.fakes.model import ModelServer
from tests.gateway.cli.chat.long_task_scene import Place
from tests.gateway.cli.verbs.review.code_host import CodeHost
from tests.gateway.cli.verbs.review.repositories import commit, git
from tests.gateway.cli.verbs.review.scene import Scene


@pytest.fixture
def scene(model_server: ModelServer, tmp_path: Path) -> Scene:
    home = Place(tmp_path, model_server).home
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    lines = "".join(f"line {n}\n" for n in range(1, 31))
    base = commit(folder, a__py=lines, __gitignore="credentials.json\n")
    git(folder, "checkout", "-qb", "topic")
    head = commit(folder, a__py=lines.replace("line 5\n", "line five\n"))
    # A file that an earlier step of the job has left.
    (folder / "credentials.json").write_text("{}")
    return Scene(folder, home, CodeHost.install(tmp_path / "bin", "gh", "glab"), base, head)
