"""Changes to files that a command under Landlock can make without opening them for writing."""

import stat
from pathlib import Path

import pytest

from agent.security.sandbox.landlock.call_broker import _mode


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6755, 0o755])
def test_set_id_bits_are_removed(tmp_path: Path, mode: int) -> None:
    """Second line of defence: the filter rejects these modes before the broker is asked."""
    file = tmp_path / "file"
    file.touch(mode=0o600)
    _mode(mode)(str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o755


def test_folder_keeps_its_sticky_bit(tmp_path: Path) -> None:
    _mode(0o1777)(str(tmp_path))
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777
