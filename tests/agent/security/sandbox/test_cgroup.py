"""Groups that bound processes: whose are cleared away, and when."""

import time
from pathlib import Path

import pytest

from agent.security.sandbox.cgroup import GroupLimits, delegated_trees, with_process_limit

BOUNDS = GroupLimits(5, 10_000_000)


def test_a_group_that_nobody_has_moved_into_yet_stays(tmp_path: Path) -> None:
    # As between two commands that begin together.
    with (
        with_process_limit([tmp_path], BOUNDS) as (first,),
        with_process_limit([tmp_path], BOUNDS) as (second,),
    ):
        assert first.is_dir()
        assert first != second


def test_a_clock_that_is_set_ahead_clears_nothing_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with with_process_limit([tmp_path], BOUNDS) as (first,):
        monkeypatch.setattr(time, "time", lambda: 1e12)
        with with_process_limit([tmp_path], BOUNDS):
            assert first.is_dir()


def test_what_an_earlier_command_left_is_cleared_away(tmp_path: Path) -> None:
    old = tmp_path / "kore-command-0-abcd"
    old.mkdir()
    with with_process_limit([tmp_path], BOUNDS):
        assert not old.exists()


def test_both_versions_of_control_groups_are_known(tmp_path: Path) -> None:
    for name in ("pids", "memory", "cpu"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    assert delegated_trees(tmp_path) == (tmp_path / "pids", tmp_path / "memory")
    (tmp_path / "cgroup.procs").touch()
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids\n")
    assert delegated_trees(tmp_path) == (tmp_path,)
    assert delegated_trees(tmp_path / "nowhere") == ()
