"""Random changes by tools, commands and others, with undo and redo.

After everything was undone, the tree equals its initial state, except for the changes of others;
and nothing written by others is ever lost.
"""

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agent.errors import ToolError
from agent.undo.command_diff import CommandChangeDetector
from tests.agent.undo.scene import Scene

NAMES = ("a", "b", "d/c", "d/e/f")
names = st.sampled_from(NAMES)
texts = st.sampled_from(("one", "two", "three", "four"))


class Machine(RuleBasedStateMachine):
    """`start` is the initial content by name, `theirs` the last content written by others."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.scene = Scene(self.folder / "workspace", self.folder / "undo")
        (self.scene.root / "a").write_text("start")
        self.start: dict[str, str | None] = {name: self.scene.text(name) for name in NAMES}
        self.theirs: dict[str, str] = {}
        self.count = 0

    def teardown(self) -> None:
        # Files written by others are theirs; all other files have their initial content.
        for _ in range(60):
            if not self.scene.undo().moves:
                break
        contents = {name: self.scene.text(name) for name in NAMES if name not in self.theirs}
        assert contents == {n: text for n, text in self.start.items() if n not in self.theirs}
        shutil.rmtree(self.folder)

    @rule(name=names, text=texts)
    def write(self, name: str, text: str) -> None:
        self._ours(name)
        self.scene.write(name, text)

    @rule(name=names, text=texts)
    def append(self, name: str, text: str) -> None:
        self._ours(name)
        self.scene.call("append_file", path=name, content=text)

    @rule(removed=names, name=names, text=texts)
    def run(self, removed: str, name: str, text: str) -> None:
        self._ours(removed)
        self._ours(name)
        work = CommandChangeDetector(self.scene.origin("exec"), self.scene.changes)
        work.begin()
        (self.scene.root / removed).unlink(missing_ok=True)
        path = self.scene.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        work.end()

    @rule(name=names)
    def somebody_else_writes(self, name: str) -> None:
        self.count += 1
        path = self.scene.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.theirs[name] = f"theirs {self.count}"
        path.write_text(self.theirs[name])

    @rule(steps=st.integers(1, 3))
    def undo(self, steps: int) -> None:
        self.scene.undo(steps=steps)

    @rule(steps=st.integers(1, 3))
    def redo(self, steps: int) -> None:
        self.scene.redo(steps=steps)

    @rule(name=names)
    def undo_at(self, name: str) -> None:
        self.scene.undo(path=self.scene.root / name)

    @rule()
    def undo_by_tool(self) -> None:
        with suppress(ToolError):  # nothing may be left to undo
            self.scene.call("undo")

    @rule()
    def begin_anew(self) -> None:
        self.scene.changes = self.scene.reopened()

    @invariant()
    def what_others_wrote_is_there(self) -> None:
        for name, text in self.theirs.items():
            assert self.scene.text(name) == text

    def _ours(self, name: str) -> None:
        """A tool overwrites the file, and an undo restores the content of the others."""
        if name in self.theirs:
            self.start[name] = self.theirs.pop(name)


# Each example is long, hence fewer examples than for other properties.
Machine.TestCase.settings = settings(
    max_examples=max(20, settings().max_examples // 5),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestChanges = Machine.TestCase
