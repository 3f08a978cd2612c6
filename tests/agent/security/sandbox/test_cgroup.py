"""Groups that bound processes: whose are cleared away, and when."""

from pathlib import Path

from agent.security.sandbox.cgroup import bounded


def test_a_group_that_nobody_has_moved_into_yet_stays(tmp_path: Path) -> None:
    # As between two commands that begin together.
    with bounded(tmp_path, 5) as first:
        first.parent.joinpath("pids.max").unlink()  # the kernel's own file keeps no group
        with bounded(tmp_path, 5) as second:
            assert first.parent.is_dir()
            assert first != second


def test_what_an_earlier_command_left_is_cleared_away(tmp_path: Path) -> None:
    old = tmp_path / "kore-exec-1700000000-abcd"
    old.mkdir()
    with bounded(tmp_path, 5):
        assert not old.exists()
