"""`kill -9` during writes and undo: nothing is destroyed, and undo still works."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.agent.undo.scene import Scene
from tests.agent.undo.writer import NAMES


@pytest.mark.parametrize("kills", [3, pytest.param(12, marks=pytest.mark.slow)])
def test_log_survives_a_kill_at_any_moment(tmp_path: Path, kills: int) -> None:
    theirs = tmp_path / "workspace" / "theirs"
    theirs.mkdir(parents=True)
    (theirs / "file").write_text("theirs")
    command = [sys.executable, "-m", "tests.agent.undo.writer", str(tmp_path)]
    for _ in range(kills):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            # At a random moment, which is the input of the test.
            time.sleep(random.uniform(0, 0.25))
            process.kill()
        scene = Scene(tmp_path / "workspace", tmp_path / "undo")
        before = {name: scene.text(name) for name in NAMES}
        # Contents are complete; at most a temporary file is left behind.
        left = {p.name for p in scene.root.rglob("*") if p.is_file()} - {"file", "a", "b", "c"}
        assert all(name.endswith(".kore-new") for name in left)
        # A redo restores exactly the previous state; undo operations of the process itself are
        # newer and stay.
        count = 0
        while moves := scene.undo().moves:
            count += any(move.change.status == "undone" for move in moves)
        if count:
            scene.redo(steps=count)
        after = {name: scene.text(name) for name in NAMES}
        statuses = {step_change(scene, name) for name in NAMES}
        assert {n: after[n] for n in NAMES} == before or "kept" in statuses
        assert (theirs / "file").read_text() == "theirs"


def step_change(scene: Scene, name: str) -> str:
    """Return the status of the newest change of a file."""
    path = scene.root / name
    steps = scene.changes.ledger.steps(scene.session)
    return next((c.status for step in steps for c in step.changes if c.path == path), "none")
