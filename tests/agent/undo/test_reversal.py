"""Undoing and redoing what file tools did, and what others did in between."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.errors import ToolError
from agent.tools.files.draft_check import Draft, NoDraftCheck
from agent.tools.registry import RegistryDefaults, ToolRegistry, default_tools
from agent.undo.blob_store import BlobStore
from agent.undo.change_log import ChangeLog
from agent.undo.reversal import UndoRequest
from tests.agent.undo.scene import Scene, Torn, TornLedger


def test_an_edit_is_undone_and_redone(scene: Scene) -> None:
    scene.write("a.txt", "one\n")
    scene.call("edit_file", path="a.txt", old_string="one", new_string="two")
    scene.undo()
    assert scene.text("a.txt") == "one\n"
    scene.redo()
    assert scene.text("a.txt") == "two\n"


def test_a_creation_is_undone_with_the_folders_it_made(scene: Scene) -> None:
    scene.write("x/y/a.txt", "one")
    scene.undo()
    assert list(scene.root.iterdir()) == []
    scene.redo()
    assert scene.text("x/y/a.txt") == "one"


def test_a_folder_that_somebody_uses_stays(scene: Scene) -> None:
    scene.write("x/a.txt", "one")
    (scene.root / "x" / "theirs.txt").write_text("theirs")
    scene.undo()
    assert [path.name for path in (scene.root / "x").iterdir()] == ["theirs.txt"]


def test_a_file_that_somebody_else_changed_is_left_alone(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("a.txt", "two")
    (scene.root / "a.txt").write_text("theirs")
    assert scene.undo().paths("kept") == [scene.root / "a.txt"]
    assert scene.undo().paths("kept") == [scene.root / "a.txt"]
    assert scene.text("a.txt") == "theirs"


def test_forcing_keeps_what_is_overwritten(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("a.txt", "two")
    (scene.root / "a.txt").write_text("theirs")
    scene.undo()
    scene.undo(force=True)
    assert scene.text("a.txt") == "one"
    scene.redo()
    assert scene.text("a.txt") == "theirs"


def test_a_creation_that_somebody_else_changed_is_not_deleted(scene: Scene) -> None:
    scene.write("a.txt", "one")
    (scene.root / "a.txt").write_text("one and more")
    scene.undo()
    assert scene.text("a.txt") == "one and more"


def test_a_new_change_ends_redoing(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.undo()
    scene.write("b.txt", "two")
    assert scene.redo().moves == ()
    assert scene.text("a.txt") is None


def test_only_what_lies_at_the_path_is_undone(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("b.txt", "two")
    scene.undo(path=scene.root / "a.txt")
    assert (scene.text("a.txt"), scene.text("b.txt")) == (None, "two")


def test_several_steps_are_undone_at_once(scene: Scene) -> None:
    for text in ("one", "two", "three"):
        scene.write("a.txt", text)
    scene.undo(steps=2)
    assert scene.text("a.txt") == "one"


def test_everything_since_a_turn_is_undone(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.turn = 2
    scene.write("a.txt", "two")
    scene.write("b.txt", "new")
    scene.turn = 3
    scene.write("a.txt", "three")
    scene.undo(since=2)
    assert (scene.text("a.txt"), scene.text("b.txt")) == ("one", None)


def test_other_sessions_steps_are_none_of_ours(scene: Scene) -> None:
    scene.write("a.txt", "one", session="s2")
    assert scene.undo().moves == ()
    assert scene.text("a.txt") == "one"


def test_the_mode_comes_back_and_that_of_others_stays(scene: Scene) -> None:
    script = scene.root / "run.sh"
    script.write_text("one")
    script.chmod(0o750)
    scene.write("run.sh", "two")
    script.unlink()
    script.write_text("two")
    script.chmod(0o600)
    scene.undo()
    assert (scene.text("run.sh"), script.stat().st_mode & 0o777) == ("one", 0o600)
    scene.write("run.sh", "three")
    scene.undo()
    assert script.stat().st_mode & 0o777 == 0o600


def test_bytes_that_are_no_text_come_back_as_they_were(scene: Scene) -> None:
    data = bytes(range(256)) * 3
    (scene.root / "a.bin").write_bytes(data)
    scene.write("a.bin", "text")
    scene.undo()
    assert (scene.root / "a.bin").read_bytes() == data


def test_a_link_on_the_way_is_not_followed(scene: Scene, tmp_path: Path) -> None:
    scene.write("x/a.txt", "one")
    scene.write("x/a.txt", "two")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("two")
    (scene.root / "x").rename(scene.root / "y")
    (scene.root / "x").symlink_to(elsewhere)
    scene.undo(force=True)
    assert (elsewhere / "a.txt").read_text() == "two"


def test_what_may_not_be_changed_is_left_alone(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("b.txt", "two")

    def check(path: Path) -> None:
        if path.name == "b.txt":
            raise ToolError("not yours")

    scene.reverse(UndoRequest(steps=2), check=check)
    assert (scene.text("a.txt"), scene.text("b.txt")) == (None, "two")


def test_a_write_that_never_happened_is_no_step(scene: Scene) -> None:
    scene.write("a.txt", "one")
    origin = scene.context().changes.origin
    assert origin is not None
    scene.changes.files(origin, {scene.root / "a.txt": b"never written"})
    scene.undo()
    assert scene.text("a.txt") is None
    scene.redo()
    assert scene.text("a.txt") == "one"


def test_the_same_key_undoes_once(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("a.txt", "two")
    first = scene.reverse(key="k")
    again = scene.reverse(key="k")
    assert scene.text("a.txt") == "one"
    assert again.paths("undone") == first.paths("undone")


@pytest.mark.parametrize("at", ["begun", "before the end"])
def test_an_undoing_that_was_cut_off_is_done_once_by_its_repetition(scene: Scene, at: str) -> None:
    for text in ("one", "two", "three"):
        scene.write("a.txt", text)
    torn = TornLedger(scene.store)
    torn.at = at
    scene.changes = ChangeLog(torn, BlobStore(scene.store))
    with pytest.raises(Torn):
        scene.reverse(key="k")
    scene.changes = scene.reopened()
    scene.reverse(key="k")
    assert scene.text("a.txt") == "two"
    scene.redo()
    assert scene.text("a.txt") == "three"


def test_an_undoing_that_was_cut_off_and_forgotten_costs_no_step(scene: Scene) -> None:
    for text in ("one", "two"):
        scene.write("a.txt", text)
    torn = TornLedger(scene.store)
    torn.at = "before the end"
    scene.changes = ChangeLog(torn, BlobStore(scene.store))
    with pytest.raises(Torn):
        scene.undo()
    scene.changes = scene.reopened()
    scene.undo()
    assert scene.text("a.txt") is None


def test_content_that_is_no_longer_kept_is_not_guessed(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("a.txt", "two")
    scene.changes.blobs.clear()
    assert scene.undo().paths("kept") == [scene.root / "a.txt"]
    assert scene.text("a.txt") == "two"


def test_damaged_content_is_not_written(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("a.txt", "two")
    for blob in (scene.store / "blobs").rglob("*"):
        if blob.is_file():
            blob.write_bytes(blob.read_bytes()[:-3])
    scene.undo()
    assert scene.text("a.txt") == "two"


def test_the_journal_is_for_its_owner_only(scene: Scene) -> None:
    scene.write("a.txt", "one")
    scene.write("a.txt", "two")
    found = [scene.store, *scene.store.rglob("*")]
    assert {os.stat(path).st_mode & 0o077 for path in found} == {0}


def test_the_tool_says_what_it_did(scene: Scene) -> None:
    scene.write("a.txt", "one\n")
    scene.write("a.txt", "two\n")
    result = scene.call("undo")
    assert result.for_model == "Restored a.txt."
    assert "-two" in result.artifacts[0].content
    assert "+one" in result.artifacts[0].content


class _HeardWrites(NoDraftCheck):
    """What language servers would be told."""

    def __init__(self) -> None:
        self.paths: list[Path] = []

    async def after_write(self, drafts: Sequence[Draft]) -> None:
        self.paths += [draft.path for draft in drafts]


def test_the_tool_tells_language_servers_what_it_brought_back(scene: Scene) -> None:
    scene.write("a.txt", "one\n")
    heard = _HeardWrites()
    scene.toolbox = ToolRegistry(
        default_tools(scene.settings, defaults=RegistryDefaults(drafts=heard))
    )
    scene.call("undo")
    assert heard.paths == [scene.root.resolve() / "a.txt"]


def test_the_tool_has_nothing_to_undo(scene: Scene) -> None:
    with pytest.raises(ToolError, match="nothing to undo"):
        scene.call("undo")


def test_a_person_is_told_what_cannot_be_undone(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "workspace", tmp_path / "undo", limit_bytes=10)
    (scene.root / "a.txt").write_text("old and far too long to be kept in so small a store")
    scene.call("read_file", path="a.txt")
    result = scene.call("write_file", path="a.txt", content="new")
    assert "cannot be undone" in (result.for_user or "")
    scene.undo()
    assert scene.text("a.txt") == "new"
