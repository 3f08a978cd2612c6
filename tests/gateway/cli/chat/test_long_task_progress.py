"""Progress counters after a killed command."""

from pathlib import Path

import pytest

from agent.errors import ConfigError
from gateway.cli.chat.long_task_progress import LongTaskProgress, ProgressFile, open_progress
from gateway.core.messages import ONCE
from gateway.runtime.paths import DataDir

UNDER_WAY = LongTaskProgress(3, f"{ONCE}12", cuts=1, idle=1, worked_s=61.5)


def test_written_progress_is_read_back(tmp_path: Path) -> None:
    with open_progress(DataDir(tmp_path / "home"), tmp_path) as progress_file:
        assert progress_file.read() == LongTaskProgress()
        progress_file.write(UNDER_WAY)
    with open_progress(DataDir(tmp_path / "home"), tmp_path) as progress_file:
        assert progress_file.read() == UNDER_WAY
        progress_file.close()
        assert progress_file.read() == LongTaskProgress()


def test_folder_is_locked_but_others_are_not(tmp_path: Path) -> None:
    home = DataDir(tmp_path / "home")
    refused = pytest.raises(ConfigError, match="is already running in")
    with (
        open_progress(home, tmp_path),
        open_progress(home, home.root),
        refused,
        open_progress(home, tmp_path / "."),
    ):
        pass


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"done": "x"}',
        '{"done": -1}',
        '{"lane": "telegram:a:1:"}',
        '{"other": 1}',
    ],
)
def test_unreadable_progress_file_is_ignored(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert ProgressFile(path).read() == LongTaskProgress()


def test_blocking_error_in_the_block_is_not_a_lock_conflict(tmp_path: Path) -> None:
    with pytest.raises(BlockingIOError), open_progress(DataDir(tmp_path / "home"), tmp_path):
        raise BlockingIOError
