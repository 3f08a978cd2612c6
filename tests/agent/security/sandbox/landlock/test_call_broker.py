"""What a command under Landlock may change about a file without opening it to write."""

import stat
from pathlib import Path

import pytest

from agent.security.sandbox.landlock.call_broker import _mode


@pytest.mark.parametrize("asked", [0o4755, 0o2755, 0o6755, 0o755])
def test_no_file_is_made_to_run_as_its_owner(tmp_path: Path, asked: int) -> None:
    """The second wall: the filter of calls refuses these modes before anybody is asked."""
    file = tmp_path / "file"
    file.touch(mode=0o600)
    _mode(asked)(str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o755


def test_a_folder_keeps_its_sticky_bit(tmp_path: Path) -> None:
    _mode(0o1777)(str(tmp_path))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777
