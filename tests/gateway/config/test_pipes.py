"""A pipe in place of a file in a foreign folder does not block any reader."""

import os
from pathlib import Path

import pytest

from agent.context.project.context import ProjectContext
from agent.errors import KoreError
from gateway.config.json_files.document import read_object


def test_pipe_as_configuration_is_rejected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(KoreError):
        read_object(tmp_path / "config.json")


def test_pipes_as_project_files_are_ignored(tmp_path: Path) -> None:
    for name in ("README.md", ".gitignore", "AGENTS.md"):
        os.mkfifo(tmp_path / name)
    project = ProjectContext(tmp_path, focus=(tmp_path / "README.md",))
    assert project.news() is not None
