"""`kill -9` in the middle of writing and undoing: nothing is destroyed, and undoing goes on."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.agent.undo.scene import Scene
from tests.agent.undo.writer import NAMES


@pytest.mark.parametrize("kills", [3, pytest.param(12, marks=pytest.mark.slow)])
def test_a_journal_survives_being_killed_at_any_moment(tmp_path: Path, kills: int) -> None:
    theirs = tmp_path / "workspace" / "theirs"
    theirs.mkdir(parents=True)
    (theirs / "file").write_text("theirs")
    command = [sys.executable, "-m", "tests.agent.undo.writer", str(tmp_path)]
    for _ in range(kills):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            # Anywhere in the middle of something: the moment is the test's input, not a wait.
            time.sleep(random.uniform(0, 0.25))
            process.kill()
        scene = Scene(tmp_path / "workspace", tmp_path / "undo")
        before = {name: scene.text(name) for name in NAMES}
        # Whole contents, never halves of them; a temporary file may be left, nothing else.
        left = {p.name for p in scene.root.rglob("*") if p.is_file()} - {"file", "a", "b", "c"}
        assert all(name.endswith(".kore-new") for name in left)
        # What can be undone is redone to exactly what was there; what the process had undone itself
        # is newer, and stays undone.
        count = 0
        while moves := scene.undo().moves:
            count += any(move.change.status == "undone" for move in moves)
        if count:
            scene.redo(steps=count)
        after = {name: scene.text(name) for name in NAMES}
        kept = {step_change(scene, name) for name in NAMES}
        assert {n: after[n] for n in NAMES} == before or "kept" in kept
        assert (theirs / "file").read_text() == "theirs"


def step_change(scene: Scene, name: str) -> str:
    """How the newest change of a file stands."""
    path = scene.root / name
    steps = scene.changes.ledger.steps(scene.session)
    return next((c.status for step in steps for c in step.changes if c.path == path), "none")
