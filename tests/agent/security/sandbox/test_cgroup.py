"""Cleanup of leftover control groups."""

import time
from pathlib import Path

import pytest

from agent.security.sandbox.cgroup import GroupLimits, delegated_trees, with_process_limit

BOUNDS = GroupLimits(5, 10_000_000)


def test_new_empty_group_stays(tmp_path: Path) -> None:
    # As between two commands that start at the same time.
    with (
        with_process_limit([tmp_path], BOUNDS) as (first,),
        with_process_limit([tmp_path], BOUNDS) as (second,),
    ):
        assert first.is_dir()
        assert first != second


def test_clock_set_ahead_removes_no_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with with_process_limit([tmp_path], BOUNDS) as (first,):
        monkeypatch.setattr(time, "time", lambda: 1e12)
        with with_process_limit([tmp_path], BOUNDS):
            assert first.is_dir()


def test_leftover_group_is_removed(tmp_path: Path) -> None:
    old = tmp_path / "kore-command-0-abcd"
    old.mkdir()
    with with_process_limit([tmp_path], BOUNDS):
        assert not old.exists()


def test_both_versions_of_control_groups_are_supported(tmp_path: Path) -> None:
    for name in ("pids", "memory", "cpu"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup.procs").touch()
    assert delegated_trees(tmp_path) == (tmp_path / "pids", tmp_path / "memory")
    (tmp_path / "cgroup.procs").touch()
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory pids\n")
    assert delegated_trees(tmp_path) == (tmp_path,)
    assert delegated_trees(tmp_path / "nowhere") == ()
