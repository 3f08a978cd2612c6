"""Undo of whole turns, except their build products."""

import pytest

from agent.undo import report
from agent.undo.ledger import ReversalResult
from agent.undo.reversal import UndoRequest
from tests.agent.undo.scene import Scene

COMPILE = "mkdir -p __pycache__ && echo x > __pycache__/a.pyc"


def undo(scene: Scene, count: int = 1) -> ReversalResult:
    return scene.reverse(UndoRequest(steps=count, by_turn=True))


def redo(scene: Scene) -> ReversalResult:
    return scene.reverse(UndoRequest("redo", by_turn=True))


@pytest.fixture
def fixed(scene: Scene) -> Scene:
    """A file changed by two turns, the second with two steps and a test run."""
    scene.write("a.py", "one\n")
    scene.turn = 2
    scene.write("a.py", "two\n")
    scene.write("b.py", "new\n")
    scene.call("exec", command=COMPILE)
    return scene


def test_all_changes_of_the_last_turn_are_undone_and_redone(fixed: Scene) -> None:
    outcome = undo(fixed)
    assert fixed.text("a.py") == "one\n"
    assert fixed.text("b.py") is None
    assert fixed.text("__pycache__/a.pyc") == "x\n"
    assert "__pycache__/a.pyc" in report.describe(outcome, "undo", fixed.root)
    redo(fixed)
    assert fixed.text("a.py") == "two\n"
    assert fixed.text("b.py") == "new\n"
    undo(fixed)
    undo(fixed)
    assert fixed.text("a.py") is None


def test_several_turns_are_undone_at_once(fixed: Scene) -> None:
    undo(fixed, 2)
    assert fixed.text("a.py") is None


def test_rest_of_a_turn_is_undone_after_a_step(fixed: Scene) -> None:
    fixed.undo()
    assert fixed.text("b.py") is None
    assert fixed.text("a.py") == "two\n"
    undo(fixed)
    assert fixed.text("a.py") == "one\n"


@pytest.mark.parametrize("by_turn", [True, False])
@pytest.mark.parametrize(
    "command",
    [
        COMPILE,
        "mkdir .cache && echo > .cache/CACHEDIR.TAG && echo x > .cache/y",
        "mkdir .cache && echo '*' > .cache/.gitignore && echo x > .cache/y",
        "echo '*.o' > .gitignore && echo x > a.o && rm .gitignore && echo '*.o' > .gitignore",
    ],
)
def test_turn_with_only_build_products_is_skipped(
    scene: Scene, command: str, by_turn: bool
) -> None:
    (scene.root / ".gitignore").write_text("*.o\n")
    scene.write("a.py", "one\n")
    scene.turn = 2
    scene.call("exec", command=command)
    made = {path for path in scene.root.rglob("*") if path.name not in ("a.py", ".gitignore")}
    assert made
    scene.reverse(UndoRequest(by_turn=by_turn))
    assert scene.text("a.py") is None
    assert all(path.exists() for path in made)


def test_build_products_are_undone_by_their_path(fixed: Scene) -> None:
    fixed.undo(path=fixed.root / "__pycache__")
    assert fixed.text("__pycache__/a.pyc") is None


def test_ignored_file_that_a_file_tool_wrote_is_undone(scene: Scene) -> None:
    (scene.root / ".gitignore").write_text("*.env\n")
    scene.write("local.env", "KEY=1\n")
    undo(scene)
    assert scene.text("local.env") is None


def test_steps_of_the_page_count_individually(scene: Scene) -> None:
    """Steps of the page belong to no turn."""
    for text in ("one\n", "two\n"):
        scene.write("page.txt", text, session="page")
    scene.write("a.py", "one\n")
    reversal = scene.reversal(beside="page")
    moves = reversal.plan(UndoRequest(steps=2, by_turn=True))
    assert sorted(move.change.path.name for move in moves) == ["a.py", "page.txt"]
