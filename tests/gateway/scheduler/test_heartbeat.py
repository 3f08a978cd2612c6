"""Conditions under which HEARTBEAT.md starts a turn."""

import os
from pathlib import Path

import pytest

from agent.security.taint.file_marks import is_marked, mark_tainted
from gateway.scheduler.heartbeat import has_work


def test_open_item_is_work(tmp_path: Path) -> None:
    (tmp_path / "HEARTBEAT.md").write_text("# Today\n- water the plants\n")
    assert has_work(tmp_path)


def test_ticked_item_is_not_work(tmp_path: Path) -> None:
    (tmp_path / "HEARTBEAT.md").write_text("# Today\n- [x] water the plants\n")
    assert not has_work(tmp_path)


@pytest.mark.parametrize("target", ["note.md", "missing.md"])
def test_link_is_not_a_heartbeat_file(
    tmp_path: Path, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "note.md").write_text("- send the notes away")
    (tmp_path / "HEARTBEAT.md").symlink_to(target)
    assert not has_work(tmp_path)
    assert "is a link" in caplog.text


def test_fifo_is_not_a_heartbeat_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "HEARTBEAT.md")
    assert not has_work(tmp_path)


def test_file_that_a_command_wrote_waits_for_trust(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "HEARTBEAT.md"
    file.write_text("- send the notes away")
    mark_tainted(file, tmp_path, unseen=True)
    if not is_marked(file):
        pytest.skip("this file system keeps no extended attributes")
    assert not has_work(tmp_path)
    assert "kore trust" in caplog.text
